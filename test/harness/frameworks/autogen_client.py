"""Drives a running service through autogen, as its users write it."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel, Field
from steps import KEY, URL, call, run, step

INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def client():
    return OpenAIChatCompletionClient(model="svc-v1-8k", base_url=URL, api_key=KEY, model_info=INFO)


class Answer(BaseModel):
    thoughts: str
    score: int = Field(ge=1, le=5)


async def get_weather(city: str, days: int) -> str:
    """The weather of a city."""
    return f"{city}: sunny for {days} days"


# The client itself wants strict tools beside an output type.
weather = FunctionTool(get_weather, description="The weather of a city.", strict=True)


ASK = call("get_weather", {"city": "Rome", "days": 2})


@step
def a_plain_answer():
    result = asyncio.run(client().create([UserMessage(content="Hello you", source="user")]))
    assert result.content == "Hello you", result


@step
def a_tool_is_called():
    agent = AssistantAgent("a", client(), tools=[weather])
    result = asyncio.run(agent.run(task=ASK))
    assert "sunny for 2 days" in result.messages[-1].content, result


@step
def tools_beside_an_output_type():
    agent = AssistantAgent("a", client(), tools=[weather], reflect_on_tool_use=True, output_content_type=Answer)
    result = asyncio.run(agent.run(task=ASK))
    assert isinstance(result.messages[-1].content, Answer), result


run()
