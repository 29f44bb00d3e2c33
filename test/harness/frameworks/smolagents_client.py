"""Drives a running service through smolagents, as its users write it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole
from steps import KEY, URL, run, step

model = OpenAIServerModel("svc-v1-8k", api_base=URL, api_key=KEY)


@tool
def final_note(text: str) -> str:
    """Keeps a note.

    Args:
        text: the note
    """
    return text


@step
def a_plain_answer():
    message = ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "Hello you"}])
    assert model.generate([message]).content == "Hello you"


@step
def an_agent_calls_tools_until_it_is_done():
    agent = ToolCallingAgent(tools=[final_note], model=model, max_steps=2, verbosity_level=-1)
    agent.run("Keep a note.")
    calls = [call.name for memory in agent.memory.steps for call in getattr(memory, "tool_calls", None) or []]
    assert calls and set(calls) <= {"final_note", "final_answer"}, calls


run()
