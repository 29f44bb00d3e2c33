"""Drives a running service through LiteLLM as a library: its openai provider, as its users write it."""

import asyncio
import json
import os

# Its list of prices is otherwise fetched when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
from steps import raises, run, step  # noqa: E402

litellm.telemetry = False
# What it says besides goes to the standard output.
litellm.suppress_debug_info = True
KEY = os.environ["API_KEY"]
# Tokens for the longest answer that a tool or a schema here lets be.
ENOUGH = 200
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def options(text, url="ECHO_URL", **more):
    base = {
        "model": "openai/svc-v1-8k",
        "messages": [{"role": "user", "content": text}],
        "api_base": os.environ[url],
        "api_key": KEY,
        "timeout": 60,
        "max_retries": 0,
    }
    return {**base, **more}


def ask(*args, **more):
    return litellm.completion(**options(*args, **more))


@step
def completion():
    answer = ask("one two three")
    assert answer.choices[0].message.content == "one two three", answer
    assert answer.choices[0].finish_reason == "stop" and answer.usage.completion_tokens == 13, answer


@step
def content_in_parts():
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert ask(parts).choices[0].message.content == "one two"


@step
def stream_with_usage():
    chunks = list(ask("one two three", stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "one two three", chunks
    assert chunks[-1].usage.completion_tokens == 13, chunks[-1]
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content == "one two three" and whole.usage.completion_tokens == 13, whole


@step
def asynchronous():
    async def several():
        return await asyncio.gather(*(litellm.acompletion(**options(text)) for text in ("one", "two", "three")))

    answers = asyncio.run(several())
    assert [answer.choices[0].message.content for answer in answers] == ["one", "two", "three"]


@step
def cached_tokens_are_told():
    long = "A story of a lighthouse and its keeper. " * 20
    first, again = (ask(long + end, url="REAL_URL", max_tokens=1) for end in ("One?", "Two?"))
    assert again.usage.prompt_tokens == first.usage.prompt_tokens
    assert again.usage.prompt_tokens_details.cached_tokens > 100, again.usage


@step
def a_forced_tool():
    forced = {"type": "function", "function": {"name": "get_weather"}}
    answer = ask("Weather in Rome?", url="REAL_URL", tools=[WEATHER], tool_choice=forced, max_tokens=ENOUGH)
    [call] = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "get_weather", answer
    assert list(json.loads(call.function.arguments)) == ["city"], call


@step
def an_answer_by_a_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema, "strict": True}}
    text = ask("A number.", url="REAL_URL", response_format=wanted, max_tokens=ENOUGH).choices[0].message.content
    assert 0 <= json.loads(text)["n"] <= 9, text


@step
def the_messages_api():
    def said(text, **more):
        root = os.environ["ECHO_URL"].removesuffix("/v1")
        kept = [{"type": "text", "text": "A story. " * 50, "cache_control": {"type": "ephemeral"}}]
        messages = [{"role": "system", "content": kept}, {"role": "user", "content": text}]
        return ask(text, model="anthropic/svc-v1-8k", api_base=root, messages=messages, max_tokens=ENOUGH, **more)

    answer = said("one two three")
    assert answer.choices[0].message.content == "one two three", answer
    assert answer.usage.cache_creation_input_tokens > 400, answer.usage
    chunks = list(said("four five", stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "four five", chunks
    raises(litellm.AuthenticationError, lambda: said("Hi", api_key="wrong"))


@step
def errors():
    denied = raises(litellm.AuthenticationError, lambda: ask("Hi", api_key="wrong"))
    assert denied.status_code == 401
    raises(litellm.NotFoundError, lambda: ask("Hi", model="openai/gpt"))
    bad = raises(litellm.BadRequestError, lambda: ask("Hi", temperature=2))
    assert "temperature" in str(bad), bad
    raises(litellm.BadRequestError, lambda: ask("Hi", max_tokens=8192))


run()
