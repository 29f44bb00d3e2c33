"""Drives a running service through LangChain's ChatOpenAI, as its users write it."""

import asyncio
import os
from typing import Annotated

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field
from steps import raises, run, step

KEY = os.environ["API_KEY"]
# Tokens for the longest answer that a tool or a schema here lets be.
ENOUGH = 200


def chat(url="ECHO_URL", **more):
    options = {"model": "svc-v1-8k", "base_url": os.environ[url], "api_key": KEY, "timeout": 60, "max_retries": 0}
    return ChatOpenAI(**{**options, **more})


@tool
def get_weather(city: Annotated[str, Field(max_length=20)], days: Annotated[int, Field(ge=1, le=9)]) -> str:
    """The weather of a city."""
    return f"{city}: sunny for {days} days"


class Paint(BaseModel):
    """A paint to buy."""

    colour: str = Field(description="red or green", max_length=12)
    count: int = Field(ge=0, le=99)


@step
def invoke():
    answer = chat().invoke([SystemMessage("Be short."), HumanMessage("one two three")])
    assert answer.content == "one two three", answer
    assert answer.response_metadata["finish_reason"] == "stop" and answer.usage_metadata["output_tokens"] == 13, answer


@step
def content_in_parts():
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert chat().invoke([HumanMessage(content=parts)]).content == "one two"


@step
def stream_with_usage():
    chunks = list(chat(stream_usage=True).stream("one two three"))
    assert "".join(chunk.content for chunk in chunks) == "one two three" and len(chunks) > 3, chunks
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.usage_metadata["output_tokens"] == 13 and whole.usage_metadata["input_tokens"] > 13, whole


@step
def asynchronous_and_batched():
    async def both():
        return await chat().abatch(["one", "two", "three"])

    assert [answer.content for answer in asyncio.run(both())] == ["one", "two", "three"]


@step
def limits_and_stop():
    assert chat(max_tokens=5).invoke("one two three").response_metadata["finish_reason"] == "length"
    assert chat().invoke("one two three", stop=["two"]).content == "one "


@step
def a_tool_and_its_result():
    asker = chat("REAL_URL", max_tokens=ENOUGH, temperature=0).bind_tools([get_weather], tool_choice="get_weather")
    question = HumanMessage("Weather in Rome for 3 days?")
    answer = asker.invoke([question])
    [call] = answer.tool_calls
    assert call["name"] == "get_weather" and set(call["args"]) == {"city", "days"}, answer
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage)
    said = chat("REAL_URL", max_tokens=6).bind_tools([get_weather], tool_choice="none").invoke([question, answer, result])
    assert isinstance(said, AIMessage) and said.content, said


@step
def a_tool_in_a_stream():
    asker = chat("REAL_URL", max_tokens=ENOUGH).bind_tools([get_weather], tool_choice="any")
    whole = None
    for chunk in asker.stream("Weather in Rome for 3 days?"):
        whole = chunk if whole is None else whole + chunk
    [call] = whole.tool_calls
    assert call["name"] == "get_weather" and set(call["args"]) == {"city", "days"}, whole


@step
def structured_output():
    for method in ("json_schema", "function_calling"):
        paint = chat("REAL_URL", max_tokens=ENOUGH).with_structured_output(Paint, method=method).invoke("Choose a paint.")
        assert isinstance(paint, Paint), (method, paint)


@step
def errors():
    denied = raises(openai.AuthenticationError, lambda: chat(api_key="wrong").invoke("Hi"))
    assert denied.status_code == 401
    raises(openai.NotFoundError, lambda: chat(model="gpt").invoke("Hi"))
    bad = raises(openai.BadRequestError, lambda: chat(temperature=2).invoke("Hi"))
    assert "temperature" in str(bad), bad


run()
