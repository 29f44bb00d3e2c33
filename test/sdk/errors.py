"""Makes each refusal of a list happen through the official Python SDK, from 1.0.0 to the newest, and looks at what is raised.

Prints one JSON line a case. It knows nothing of the service but the list, which holds addresses and keys.
"""

import json
import os
import re
import time
import traceback
from typing import Dict

import openai
from openai import OpenAI

Json = Dict[str, object]


def client_of(case):
    headers = {"Authorization": case["authorization"]} if "authorization" in case else None
    return OpenAI(base_url=case["url"], api_key=case["key"], max_retries=0, timeout=60, default_headers=headers)


def call(case):
    client = client_of(case)
    kind = case["call"]
    if kind == "chat":
        return client.chat.completions.create(**case["body"])
    if kind == "stream":
        return list(client.chat.completions.create(stream=True, **case["body"]))
    if kind == "upload":
        file = ("a.txt", b"x" * case["bytes"])
        return client.files.create(file=file, purpose=case.get("purpose", "file-extract"))
    if kind == "content":
        # The first version knows it under another name.
        read = getattr(client.files, "content", None) or client.files.retrieve_content
        return read(case["id"])
    return client.get(case["path"], cast_to=Json)


def check(case):
    for _ in range(case.get("before", 0)):
        try:
            call(case)
        except openai.APIStatusError:
            pass
    try:
        call(case)
    except openai.APIStatusError as error:
        raised = error
    else:
        raise AssertionError("nothing was raised")
    assert type(raised).__name__ == case["class"], type(raised).__name__
    assert raised.status_code == case["status"], raised.status_code
    # The first version does not keep the body.
    body = raised.response.json()["error"]
    assert body["type"] == case["type"], body
    assert re.search(case["message"], body["message"]), body["message"]
    assert raised.response.headers.get("x-should-retry") == case["retry"], dict(raised.response.headers)
    assert raised.response.headers.get("x-request-id")


def report(name, act):
    began = time.monotonic()
    line = {"step": name, "ok": True}
    try:
        act()
    except Exception:
        line.update(ok=False, error=traceback.format_exc()[-2000:])
    line["ms"] = (time.monotonic() - began) * 1000
    print(json.dumps(line), flush=True)


with open(os.environ["CASES"]) as file:
    for each in json.load(file):
        report(each["name"], lambda: check(each))
report("end", lambda: None)
