"""Calls the service with the client that openapi-python-client made of its document."""

import os
import sys
from io import BytesIO

sys.path.insert(0, os.environ["CLIENT_FOLDER"])

from generated import AuthenticatedClient
from generated.api.account import get_balance
from generated.api.caches import create_cache, get_cache
from generated.api.chat import create_chat_completion
from generated.api.files import get_file_content, upload_file
from generated.api.models import list_models
from generated.models import CacheCreate, ChatRequest, Error, FileUpload, FileUploadPurpose
from generated.types import File
from steps import KEY, URL, run, step

ORIGIN = URL.removesuffix("/v1")
client = AuthenticatedClient(base_url=ORIGIN, token=KEY)
HELLO = [{"role": "user", "content": "one two three"}]


@step
def a_chat():
    body = ChatRequest.from_dict({"model": "svc-v1-8k", "messages": HELLO})
    answer = create_chat_completion.sync(client=client, body=body)
    assert answer.choices[0].message.content == "one two three", answer


@step
def an_error():
    body = ChatRequest.from_dict({"model": "svc-v1-8k", "messages": HELLO})
    stranger = AuthenticatedClient(base_url=ORIGIN, token="wrong")
    answer = create_chat_completion.sync_detailed(client=stranger, body=body)
    assert answer.status_code == 401, answer
    assert isinstance(answer.parsed, Error), answer


@step
def a_cache():
    body = CacheCreate.from_dict({"model": "svc-v1", "messages": HELLO, "tags": ["handbook"]})
    made = create_cache.sync(client=client, body=body)
    assert get_cache.sync(made.id, client=client).tokens > 0


@step
def a_file():
    sent = FileUpload(file=File(BytesIO(b"Hello there"), "a.txt", "text/plain"), purpose=FileUploadPurpose.FILE_EXTRACT)
    made = upload_file.sync(client=client, body=sent)
    content = get_file_content.sync(made.id, client=client)
    assert "Hello there" in str(content), content


@step
def lists():
    assert list_models.sync(client=client).data[0].id
    assert get_balance.sync("me", client=client).status is True


run()
