"""Drives a running service through the OpenAI Agents SDK with its default model, the Responses API."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from agents import Agent, ModelSettings, OpenAIConversationsSession, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from steps import KEY, URL, call, run, step

set_tracing_disabled(True)


def client():
    """A client belongs to its event loop, and each step may have one of its own."""
    return AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)


def new_model():
    return OpenAIResponsesModel("svc-v1-8k", client())


@function_tool
def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city}: sunny for {days} days"


class Report(BaseModel):
    city: str = Field(pattern=r"^[A-Z][a-z]+$")
    degrees: float = Field(ge=-5.5, lt=60)


ASK = call("get_weather", {"city": "Rome", "days": 2})


@step
def a_plain_answer():
    result = Runner.run_sync(Agent(name="a", model=new_model()), "Hello you")
    assert result.final_output == "Hello you" and result.last_response_id.startswith("resp_"), result


@step
def a_tool_is_called_and_its_result_goes_back():
    agent = Agent(name="a", model=new_model(), tools=[get_weather])
    assert "Rome: sunny for 2 days" in Runner.run_sync(agent, ASK).final_output


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
    assert "tool_called" in found and "tool_output" in found and "Rome: sunny for 2 days" in output, (found, output)


@step
def a_handoff():
    other = Agent(name="Other", model=new_model())
    agent = Agent(name="a", model=new_model(), handoffs=[other])
    assert Runner.run_sync(agent, call("transfer_to_other", {})).last_agent is other


@step
def a_forced_tool():
    settings = ModelSettings(tool_choice="get_weather")
    agent = Agent(name="a", model=new_model(), tools=[get_weather], model_settings=settings, tool_use_behavior="stop_on_first_tool")
    assert "sunny" in Runner.run_sync(agent, "What now?").final_output


@step
def a_run_goes_on_from_a_response():
    agent = Agent(name="a", model=new_model(), tools=[get_weather])
    first = Runner.run_sync(agent, "Hello you")
    second = Runner.run_sync(Agent(name="a", model=new_model()), "And you", previous_response_id=first.last_response_id)
    before, after = (each.context_wrapper.usage.input_tokens for each in (first, second))
    assert second.final_output == "And you" and after > 0 and before > 0


@step
def a_session_is_a_conversation():
    async def talk():
        session = OpenAIConversationsSession(openai_client=client())
        agent = Agent(name="a", model=new_model())
        await Runner.run(agent, "one", session=session)
        await Runner.run(agent, "two", session=session)
        items = await session.get_items()
        await session.clear_session()
        return items

    items = asyncio.run(talk())
    assert [item["role"] for item in items] == ["user", "assistant"] * 2, items


run()
