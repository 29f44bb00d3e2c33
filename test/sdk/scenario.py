"""Drives a running service through the official Python SDK, from 1.0.0 to the newest, and prints one JSON line a step.

Parameters that the oldest version does not know go through extra_body, and answers are read as plain values, so that
both versions run the same lines.
"""

import json
import logging
import math
import os
import re
import sys
import time
import traceback
from typing import Dict

import openai
from openai import OpenAI

MODEL = "svc-v1-8k"
KEY = os.environ["API_KEY"]
real = OpenAI(base_url=os.environ["REAL_URL"], api_key=KEY, timeout=60)
echo = OpenAI(base_url=os.environ["ECHO_URL"], api_key=KEY, timeout=30)
OLDEST = openai.__version__.startswith("1.0.")
NEWER = {"tools", "tool_choice", "response_format", "seed", "logprobs", "top_logprobs", "stream_options", "ignore_eos"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
FORCED = {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
QUESTION = "Name three colours."

steps = []


def step(function):
    steps.append(function)
    return function


def user(text):
    return [{"role": "user", "content": text}]


def ask(client, text, **more):
    extra = {key: more.pop(key) for key in list(more) if key in NEWER}
    return client.chat.completions.create(model=MODEL, messages=user(text), extra_body=extra or None, **more)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def told(error):
    """The envelope: the first version keeps it only in the response."""
    return error.response.json()["error"]


def read(stream):
    """The text, the last finish reason, and all chunks as plain values."""
    chunks = [chunk.model_dump() for chunk in stream]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, choices[-1]["finish_reason"], chunks


def check_call(name, arguments):
    assert name == "get_weather", name
    given = json.loads(arguments)
    assert sorted(given) == ["city", "days"] and isinstance(given["city"], str) and 1 <= given["days"] <= 9, given


@step
def models():
    ids = [model.id for model in real.models.list()]
    assert ids[0] == MODEL and "svc-v1-auto" in ids, ids
    found = real.models.retrieve(MODEL)
    assert found.id == MODEL and found.object == "model", found
    raises(openai.NotFoundError, lambda: real.models.retrieve("svc-v2"))


@step
def whole_and_streamed_answers_are_the_same():
    whole = ask(real, QUESTION, max_tokens=24, temperature=0)
    [choice] = whole.choices
    assert whole.object == "chat.completion" and whole.model == MODEL and choice.message.role == "assistant"
    assert choice.message.content.strip(), "it says something"
    usage = whole.usage
    assert usage.prompt_tokens > 5 and 1 <= usage.completion_tokens <= 24
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    text, reason, chunks = read(ask(real, QUESTION, max_tokens=24, temperature=0, stream=True))
    assert text == choice.message.content, (text, choice.message.content)
    assert reason == choice.finish_reason
    assert len({chunk["id"] for chunk in chunks}) == 1 and len(chunks) > 3
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"


@step
def choices():
    answers = [ask(real, "Say a word.", n=2, temperature=1, max_tokens=6, seed=7) for _ in range(2)]
    assert [choice.index for choice in answers[0].choices] == [0, 1]
    texts = [[choice.message.content for choice in each.choices] for each in answers]
    assert texts[0] == texts[1], texts


@step
def stop_strings():
    free = ask(real, QUESTION, max_tokens=24, temperature=0).choices[0].message.content
    word = re.findall(r"\w{3,}", free)[2]
    cut = ask(real, QUESTION, max_tokens=24, temperature=0, stop=[word]).choices[0]
    assert cut.message.content == free[: free.index(word)], (free, word, cut)
    assert cut.finish_reason == "stop"
    text, reason, _ = read(ask(real, QUESTION, max_tokens=24, temperature=0, stop=word, stream=True))
    assert (text, reason) == (cut.message.content, "stop")


@step
def a_forced_call_and_its_result():
    answer = ask(real, "Weather in Rome for 3 days?", max_tokens=80, **FORCED).model_dump()
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "tool_calls", choice
    [call] = choice["message"]["tool_calls"]
    check_call(call["function"]["name"], call["function"]["arguments"])
    messages = user("Weather in Rome for 3 days?") + [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": '{"sky": "sunny"}'},
    ]
    extra = {"tools": [WEATHER], "tool_choice": "none"}
    after = real.chat.completions.create(model=MODEL, messages=messages, max_tokens=8, extra_body=extra)
    assert after.choices[0].message.content, after


@step
def a_forced_call_in_a_stream():
    _, reason, chunks = read(ask(real, "Weather in Rome?", max_tokens=80, stream=True, **FORCED))
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or []]
    assert reason == "tool_calls" and {call["index"] for call in calls} == {0}, chunks
    assert calls[0]["id"] and calls[0]["type"] == "function"
    arguments = "".join(call["function"].get("arguments") or "" for call in calls)
    check_call(calls[0]["function"]["name"], arguments)


@step
def answers_by_a_schema():
    count = {"type": "integer", "minimum": 0, "maximum": 99}
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}, "count": count},
        "required": ["colour", "count"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "paint", "schema": schema, "strict": True}}
    text = ask(real, "Choose a paint.", max_tokens=60, response_format=wanted).choices[0].message.content
    answer = json.loads(text)
    assert answer["colour"] in ("red", "green") and 0 <= answer["count"] <= 99, answer


@step
def log_probabilities():
    answer = ask(real, "Hi", max_tokens=4, logprobs=True, top_logprobs=2).model_dump()
    tokens = answer["choices"][0]["logprobs"]["content"]
    assert len(tokens) == answer["usage"]["completion_tokens"], tokens
    for token in tokens:
        assert token["logprob"] <= 0 and len(token["top_logprobs"]) == 2
        assert abs(token["top_logprobs"][0]["logprob"] - token["logprob"]) < 1e-6, "greedy takes the likeliest"


@step
def usage_chunk():
    _, _, chunks = read(ask(real, "Hi", max_tokens=4, stream=True, stream_options={"include_usage": True}))
    last = chunks[-1]
    assert last["choices"] == [] and last["usage"]["total_tokens"] > 4, last


@step
def estimate_is_usage():
    body = {"model": MODEL, "messages": user("Grüße 😀 <|im_end|> and more")}
    counted = real.post("/tokenizers/estimate-token-count", cast_to=Dict[str, object], body=body)
    used = real.chat.completions.create(max_tokens=1, **body).usage.prompt_tokens
    assert counted == {"data": {"total_tokens": used}}, (counted, used)


@step
def raw_response():
    raw = real.chat.completions.with_raw_response.create(model=MODEL, messages=user("Hi"), max_tokens=1)
    request_id = raw.headers["x-request-id"]
    assert request_id and raw.headers["content-type"] == "application/json"
    parsed = raw.parse()
    assert parsed.choices[0].message.role == "assistant"
    assert OLDEST or parsed._request_id == request_id


@step
def errors():
    stranger = OpenAI(base_url=os.environ["REAL_URL"], api_key="wrong")
    error = raises(openai.AuthenticationError, lambda: ask(stranger, "Hi"))
    assert error.status_code == 401 and told(error)["message"] == "Incorrect API key provided", told(error)
    assert told(error)["type"] == "invalid_authentication_error"
    missing = raises(openai.NotFoundError, lambda: real.chat.completions.create(model="gpt", messages=user("Hi")))
    assert told(missing)["message"] == "Not found the model or Permission denied"
    bad = raises(openai.BadRequestError, lambda: ask(real, "Hi", n=2))
    assert told(bad)["param"] == "n" and told(bad)["type"] == "invalid_request_error", told(bad)
    assert bad.response.headers["x-request-id"]
    streamed = raises(openai.BadRequestError, lambda: ask(real, "Hi", temperature=2, stream=True))
    assert "temperature must be a number in [0, 1], got 2" in told(streamed)["message"]
    long = raises(openai.BadRequestError, lambda: ask(real, "Hi", max_tokens=8192))
    assert told(long)["message"] == "Your request exceeded model token limit : 8192"


@step
def an_abort_frees_the_slots():
    story = "Tell me a very long story."
    began = time.monotonic()
    endless = {"max_tokens": 6000, "ignore_eos": True, "stream": True}
    streams = [ask(real, story, **endless) for _ in range(2)]
    for _ in range(24):
        for stream in streams:
            next(stream)
    a_token = (time.monotonic() - began) / 24
    for stream in streams:
        stream.response.close()
    began = time.monotonic()
    assert ask(real, "Hi", max_tokens=2).choices[0].message.content
    waited = time.monotonic() - began
    assert waited < 2000 * a_token, f"{waited} s: two streams of 6000 tokens hold both slots for {6000 * a_token} s"


@step
def interleaved_choices_of_known_text():
    chunks = read(ask(echo, "one two three", n=3, temperature=1, stream=True))[2]
    for index in range(3):
        own = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
        assert "".join(choice["delta"].get("content") or "" for choice in own) == "one two three"


@step
def a_failure_in_mid_stream_is_raised():
    seen = []

    def consume():
        for chunk in ask(echo, "/fail some words", stream=True):
            seen.extend(choice.delta.content or "" for choice in chunk.choices)

    error = raises(openai.APIError, consume)
    assert "".join(seen) == "some words" and not isinstance(error, openai.APIConnectionError), (seen, error)


@step
def a_failure_before_the_answer_is_a_500():
    error = raises(openai.InternalServerError, lambda: ask(echo.with_options(max_retries=0), "/fail now"))
    assert error.status_code == 500 and told(error)["type"] == "server_error"


@step
def too_much_at_once():
    began = time.monotonic()
    held = ask(echo, "/wait", stream=True)
    next(held)
    error = raises(openai.RateLimitError, lambda: ask(echo.with_options(max_retries=0), "Hi"))
    held_for = time.monotonic() - began
    held.response.close()
    assert told(error)["type"] == "rate_limit_reached_error" and "max concurrency: 1" in told(error)["message"]
    # A second, or as long as the place has been held.
    assert 1 <= int(error.response.headers["retry-after"]) <= max(1, math.ceil(held_for)), error.response.headers


@step
def a_retry_waits_as_told_and_succeeds():
    began = time.monotonic()
    held = ask(echo, "/wait", stream=True)
    next(held)
    retries = []

    class Told(logging.Handler):
        """The SDK says how long it will wait, before it does."""

        def emit(self, record):
            seconds = re.search(r"Retrying request.* in ([\d.]+) seconds", record.getMessage())
            if seconds is None:
                return
            retries.append((float(seconds[1]), time.monotonic()))
            # Not before the first attempt was refused, however slow this machine is.
            held.response.close()

    log, handler = logging.getLogger("openai"), Told()
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    answer = ask(echo, "Hi").choices[0].message.content
    log.removeHandler(handler)
    waited = time.monotonic() - retries[-1][1]
    [(first, refused), *_] = retries
    assert answer == "Hi" and 1 <= first <= max(1, math.ceil(refused - began)), (answer, retries)
    assert waited >= 0.95 * retries[-1][0], (waited, retries)


@step
def completions_of_raw_prompts():
    both = echo.completions.create(model=MODEL, prompt=["one two", "three"], max_tokens=20)
    assert [choice.text for choice in both.choices] == ["one two", "three"], both
    assert both.usage.prompt_tokens == 12, both.usage
    chunks = echo.completions.create(model=MODEL, prompt="one two", stream=True)
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "one two"
    scored = real.completions.create(model=MODEL, prompt="The sky is blue", echo=True, logprobs=2, max_tokens=0)
    lists = scored.choices[0].logprobs
    assert "".join(lists.tokens) == scored.choices[0].text == "The sky is blue", lists
    assert lists.token_logprobs[0] is None and all(chance < 0 for chance in lists.token_logprobs[1:]), lists


@step
def a_batch():
    if not hasattr(echo, "batches"):
        return
    body = {"model": MODEL, "messages": user("one two")}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    file = echo.files.create(file=("in.jsonl", json.dumps(line).encode()), purpose="batch")
    batch = echo.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"k": "v"}
    )
    while batch.status not in ("completed", "failed"):
        time.sleep(0.02)
        batch = echo.batches.retrieve(batch.id)
    assert batch.request_counts.completed == 1 and batch.metadata == {"k": "v"}, batch
    result = json.loads(echo.files.content(batch.output_file_id).text)
    assert result["response"]["body"]["choices"][0]["message"]["content"] == "one two", result
    assert batch.id in [each.id for each in echo.batches.list(limit=2)]
    assert raises(openai.BadRequestError, lambda: echo.batches.cancel(batch.id))


@step
def stream_helper():
    helper = getattr(real.chat.completions, "stream", None)
    if helper is None:
        return
    with helper(model=MODEL, messages=user("Weather in Rome?"), max_tokens=80, **FORCED) as stream:
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0].function
    check_call(call.name, call.arguments)


def main():
    for function in steps:
        outcome = {"step": function.__name__.replace("_", " "), "ok": True}
        began = time.monotonic()
        try:
            function()
        except Exception:
            outcome.update(ok=False, error=traceback.format_exc()[-1500:])
        outcome["ms"] = 1000 * (time.monotonic() - began)
        print(json.dumps(outcome), flush=True)
    print(json.dumps({"step": "end", "ok": True, "ms": 0}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
