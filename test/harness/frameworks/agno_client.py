"""Drives a running service through agno, as its users write it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from pydantic import BaseModel, Field
from steps import KEY, URL, call, run, step


def model():
    return OpenAILike(id="svc-v1-8k", api_key=KEY, base_url=URL)


class Script(BaseModel):
    title: str = Field(pattern="^[A-Z]")
    pages: int = Field(gt=0, multiple_of=5)


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city}: sunny for {days} days"


ASK = call("get_weather", {"city": "Rome", "days": 2})


@step
def a_plain_answer():
    assert "Hello you" in Agent(model=model(), telemetry=False).run("Hello you").content


@step
def a_tool_is_called_and_its_result_goes_back():
    answer = Agent(model=model(), tools=[get_weather], telemetry=False).run(ASK)
    assert [tool.tool_name for tool in answer.tools] == ["get_weather"], answer
    assert "sunny for 2 days" in answer.content, answer


@step
def tools_beside_an_output_schema():
    answer = Agent(model=model(), tools=[get_weather], output_schema=Script, telemetry=False).run(ASK)
    assert isinstance(answer.content, Script), answer.content


run()
