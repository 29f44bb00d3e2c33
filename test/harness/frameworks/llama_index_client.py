"""Drives a running service through llama-index, as its users write it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field
from steps import KEY, URL, run, step

llm = OpenAILike(
    model="svc-v1-8k",
    api_base=URL,
    api_key=KEY,
    is_chat_model=True,
    is_function_calling_model=True,
    should_use_structured_outputs=True,
    max_retries=0,
)


class Album(BaseModel):
    """An album."""

    name: str = Field(min_length=2)
    songs: list[str] = Field(max_length=3)


def get_weather(city: str, days: int) -> str:
    """The weather of a city."""
    return f"{city}: {days}"


@step
def a_plain_answer():
    assert llm.chat([ChatMessage(role="user", content="Hello you")]).message.content == "Hello you"


@step
def a_stream():
    pieces = [chunk.delta for chunk in llm.stream_chat([ChatMessage(role="user", content="one two three")])]
    assert "".join(pieces) == "one two three", pieces


@step
def a_forced_tool():
    answer = llm.predict_and_call([FunctionTool.from_defaults(get_weather)], "Weather?", tool_required=True)
    assert answer.sources[0].tool_name == "get_weather", answer


@step
def structured_output():
    album = llm.as_structured_llm(Album).chat([ChatMessage(role="user", content="Which album?")]).raw
    assert isinstance(album, Album), album


@step
def the_default_which_is_a_completion():
    plain = OpenAILike(model="svc-v1-8k", api_base=URL, api_key=KEY, is_chat_model=False, max_tokens=20)
    assert plain.complete("one two").text == "one two"
    pieces = [chunk.delta for chunk in plain.stream_complete("one two three")]
    assert "".join(pieces) == "one two three", pieces


run()
