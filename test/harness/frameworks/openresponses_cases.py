"""Runs the cases of the Open Responses compliance runner, with the types that are generated from its schema."""

import json
import os
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import openresponses_types.types as types
from pydantic import ValidationError
from steps import KEY, run, step

URL = os.environ["CASES_URL"]


def type_of(model):
    """An enumeration of one value."""
    [only] = model.model_fields["type"].annotation
    return only.value


EVENTS = {type_of(model): model for name, model in vars(types).items() if name.endswith("StreamingEvent")}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}},
        "required": ["location"],
    },
}
# Where the model would not call by itself, what is looked at is the form of the call.
CALLED = {"tools": [WEATHER]} if os.environ.get("CASES_CALL") else {"tools": [WEATHER], "tool_choice": "required"}
IMAGE = os.environ.get("CASES_IMAGE")
SUNNY = "What's the weather like in San Francisco?"


def said(role, content):
    return {"type": "message", "role": role, "content": content}


def post(items, stream=False, **fields):
    body = json.dumps({"model": "svc-v1-8k", "input": items, "stream": stream, **fields}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/responses", body, headers)) as reply:
        return reply.read().decode()


def whole(items, **fields):
    response = types.ResponseResource.model_validate_json(post(items, **fields))
    assert response.output, response
    return response


def streamed(items, **fields):
    """Every event fits its type, and the last one holds a whole response."""
    frames = [frame for frame in post(items, stream=True, **fields).split("\n\n") if frame]
    events = [json.loads(frame.split("\ndata: ")[1]) for frame in frames]
    for event in events:
        try:
            EVENTS[event["type"]].model_validate(event)
        except ValidationError as error:
            raise AssertionError(f"{event['type']}: {error}") from error
    return events, types.ResponseResource.model_validate(events[-1]["response"])


def completed(response):
    assert response.status == "completed", response.status


@step
def basic_response():
    completed(whole([said("user", "Say hello in exactly 3 words.")]))


@step
def streaming_response():
    completed(streamed([said("user", "Count from 1 to 5.")])[1])


@step
def system_prompt():
    completed(whole([said("system", "You are a pirate. Always respond in pirate speak."), said("user", "Say hello.")]))


@step
def tool_calling():
    response = whole([said("user", SUNNY)], **CALLED)
    kinds = [item["type"] for item in response.model_dump(mode="json")["output"]]
    assert "function_call" in kinds, kinds


@step
def tool_calling_streaming():
    events, _ = streamed([said("user", SUNNY)], **CALLED)
    kinds = {(event["type"], event.get("item", {}).get("type")) for event in events}
    for kind in [
        ("response.output_item.added", "function_call"),
        ("response.function_call_arguments.delta", None),
        ("response.function_call_arguments.done", None),
        ("response.output_item.done", "function_call"),
    ]:
        assert kind in kinds, kind


if IMAGE:

    @step
    def image_input():
        content = [
            {"type": "input_text", "text": "What do you see in this image? Answer in one sentence."},
            {"type": "input_image", "image_url": IMAGE},
        ]
        completed(whole([said("user", content)]))


@step
def multi_turn():
    completed(whole([
        said("user", "My name is Alice."),
        said("assistant", "Hello Alice! Nice to meet you. How can I help you today?"),
        said("user", "What is my name?"),
    ]))


run()
