"""Drives a running service through the OpenAI Agents SDK, as its users write it."""

import asyncio
import sys
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).parent.parent))

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from steps import KEY, URL, call, run, step

set_tracing_disabled(True)


def new_model():
    """A client belongs to its event loop, and each step may have one of its own."""
    return OpenAIChatCompletionsModel("svc-v1-8k", AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0))


@function_tool
def get_weather(city: str, days: int = 1, unit: Literal["c", "f"] = "c") -> str:
    """The weather of a city."""
    return f"{city}: sunny, {days} {unit}"


@function_tool
def note(text: str) -> None:
    """Keeps a note."""


class Report(BaseModel):
    city: str = Field(pattern=r"^[A-Z][a-z]+$")
    degrees: float = Field(ge=-5.5, lt=60)


ASK = call("get_weather", {"city": "Rome", "days": 2, "unit": "f"})


@step
def a_plain_answer():
    assert Runner.run_sync(Agent(name="a", model=new_model()), "Hello you").final_output == "Hello you"


@step
def a_tool_is_called_and_its_result_goes_back():
    agent = Agent(name="a", model=new_model(), tools=[get_weather, note])
    assert "Rome: sunny, 2 f" in Runner.run_sync(agent, ASK).final_output


@step
def tools_beside_an_output_type():
    agent = Agent(name="a", model=new_model(), tools=[get_weather], output_type=Report)
    report = Runner.run_sync(agent, ASK).final_output
    assert isinstance(report, Report) and report.city, report


@step
def a_stream_with_a_call():
    async def names():
        agent = Agent(name="a", model=new_model(), tools=[get_weather])
        result = Runner.run_streamed(agent, ASK)
        found = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
        return found, result.final_output

    found, output = asyncio.run(names())
    assert "tool_called" in found and "tool_output" in found and "Rome: sunny, 2 f" in output, (found, output)


@step
def a_handoff():
    other = Agent(name="Other", model=new_model())
    agent = Agent(name="a", model=new_model(), handoffs=[other])
    result = Runner.run_sync(agent, call("transfer_to_other", {}))
    assert result.last_agent is other, result


@step
def a_forced_tool():
    settings = ModelSettings(tool_choice="get_weather")
    agent = Agent(name="a", model=new_model(), tools=[get_weather], model_settings=settings, tool_use_behavior="stop_on_first_tool")
    assert "sunny" in Runner.run_sync(agent, "What now?").final_output


run()
