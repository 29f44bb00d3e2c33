"""Runs the steps a scenario has written down, in order, and prints one JSON line for each and one for the end."""

import json
import os
import time
import traceback

KEY = os.environ.get("API_KEY", "")
URL = os.environ.get("ECHO_URL", "")

steps = []


def call(name, arguments):
    """A text that the echo engine repeats, and that the service reads as a call."""
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{body}</tool_call>"


def step(function):
    steps.append(function)
    return function


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def run():
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
