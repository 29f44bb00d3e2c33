"""Drives a running service through pydantic-ai, as its users write it."""

import asyncio
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from steps import KEY, URL, call, run, step

model = OpenAIChatModel("svc-v1-8k", provider=OpenAIProvider(base_url=URL, api_key=KEY))


class Visit(BaseModel):
    day: date
    code: str = Field(pattern=r"^[A-Z]{3}\d+$")
    tags: set[str] = set()
    next: "Visit | None" = None


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city}: sunny for {days} days"


ASK = call("get_weather", {"city": "Rome", "days": 2})


@step
def a_plain_answer():
    assert Agent(model).run_sync("Hello you").output == "Hello you"


@step
def a_tool_is_called_and_its_result_goes_back():
    assert "Rome: sunny for 2 days" in Agent(model, tools=[get_weather]).run_sync(ASK).output


@step
def output_by_a_tool():
    visit = Agent(model, output_type=ToolOutput(Visit)).run_sync("Which visit?").output
    assert isinstance(visit, Visit), visit


@step
def native_output_beside_tools():
    visit = Agent(model, output_type=NativeOutput(Visit), tools=[get_weather]).run_sync(ASK).output
    assert isinstance(visit, Visit), visit


@step
def prompted_output():
    visit = Agent(model, output_type=PromptedOutput(Visit)).run_sync('{"day": "2024-02-29", "code": "ABC1"}').output
    assert isinstance(visit, Visit), visit


@step
def a_stream():
    async def text():
        async with Agent(model).run_stream("one two three") as result:
            return [piece async for piece in result.stream_text(delta=True, debounce_by=None)]

    pieces = asyncio.run(text())
    assert "".join(pieces) == "one two three" and len(pieces) > 1, pieces


run()
