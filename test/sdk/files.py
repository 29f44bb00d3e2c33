"""Uploads files, lists them to the end, reads their text and deletes them, through the official Python SDK from 1.0.0 on.

Prints one JSON line a step. It knows nothing of the service but its address and a key.
"""

import io
import json
import os
import tempfile
import time
import traceback
from pathlib import Path

import openai
from openai import OpenAI
from openai.pagination import SyncCursorPage

COUNT = 23
client = OpenAI(base_url=os.environ["FILES_URL"], api_key=os.environ["API_KEY"], timeout=60)


def create(content, name):
    return client.files.create(file=(name, io.BytesIO(content.encode())), purpose="file-extract")


def content_of(file_id):
    # Renamed soon after 1.0.0.
    if not hasattr(client.files, "content"):
        return json.loads(client.files.retrieve_content(file_id))
    return json.loads(client.files.content(file_id).text)


def upload_and_read():
    path = Path(tempfile.mkdtemp()) / "grüße.txt"
    path.write_text("Words of a file. 世界", encoding="utf-8")
    made = client.files.create(file=path, purpose="file-extract")
    assert made.status == "ok" and made.object == "file" and made.filename == "grüße.txt", made
    got = content_of(made.id)
    assert got == {
        "content": "Words of a file. 世界",
        "file_type": "text/plain",
        "filename": "grüße.txt",
        "title": "",
        "type": "file",
    }, got
    assert client.files.retrieve(made.id) == made
    gone = client.files.delete(made.id)
    assert gone.deleted and gone.id == made.id


def list_to_the_end():
    made = [create(f"number {n}", f"{n}.txt").id for n in range(COUNT)]
    page = client.files.list()
    seen = [each.id for each in page]
    # The oldest versions do not ask for a second page.
    expected = COUNT if isinstance(page, SyncCursorPage) else 20
    assert len(seen) == len(set(seen)) == expected, len(seen)
    assert set(seen) <= set(made)
    for file_id in made:
        assert content_of(file_id)["content"].startswith("number ")
        assert client.files.delete(file_id).deleted
    assert list(client.files.list()) == []


def delete_while_paging():
    # A page has 20 files: all of it is deleted before the next one is asked for, after the last that was on it.
    made = {create(f"page {n}", f"{n}.txt").id for n in range(COUNT)}
    gone = [client.files.delete(each.id).id for each in client.files.list()]
    if not isinstance(client.files.list(), SyncCursorPage):
        # The oldest versions do not ask for a second page.
        gone += [client.files.delete(each.id).id for each in client.files.list()]
    assert len(gone) == COUNT and set(gone) == made, (len(gone), len(made))
    assert list(client.files.list()) == []


def refusals():
    for make, error in [
        (lambda: client.files.create(file=("a.txt", b"x"), purpose="assistants"), openai.BadRequestError),
        (lambda: create("", "a.txt"), openai.BadRequestError),
        (lambda: client.files.retrieve("0" * 20), openai.NotFoundError),
    ]:
        try:
            make()
        except error:
            continue
        raise AssertionError("it was not refused")
    blank = create("  ", "blank.txt")
    try:
        content_of(blank.id)
        raise AssertionError("it was not refused")
    except openai.InternalServerError as error:
        assert "Failed to extract file" in str(error), error
    client.files.delete(blank.id)


for step in [upload_and_read, list_to_the_end, delete_while_paging, refusals]:
    begin = time.monotonic()
    outcome = {"step": step.__name__, "ok": True}
    try:
        step()
    except Exception:
        outcome = {"step": step.__name__, "ok": False, "error": traceback.format_exc()}
    print(json.dumps({**outcome, "ms": (time.monotonic() - begin) * 1000}), flush=True)
print(json.dumps({"step": "end", "ok": True, "ms": 0}), flush=True)
