"""Drives a running service through the OpenAI SDK's responses and conversations."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import openai
from pydantic import BaseModel
from steps import KEY, URL, raises, run, step

client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
create = client.responses.create
MODEL = {"model": "svc-v1-8k"}


@step
def created_and_retrieved():
    response = create(**MODEL, input="Hello you", metadata={"a": "b"})
    assert response.output_text == "Hello you" and response.usage.output_tokens == 9, response
    kept = client.responses.retrieve(response.id)
    assert kept.output_text == "Hello you" and kept.metadata == {"a": "b"}, kept


@step
def streamed():
    with client.responses.stream(**MODEL, input="one two") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert deltas == ["one ", "two"] and stream.get_final_response().output_text == "one two", deltas


@step
def parsed():
    class Answer(BaseModel):
        number: int

    response = client.responses.parse(**MODEL, input="Which?", text_format=Answer)
    assert isinstance(response.output_parsed, Answer), response


@step
def its_input_is_listed():
    first = create(**MODEL, input="one")
    second = create(**MODEL, previous_response_id=first.id, input=[{"role": "user", "content": str(n)} for n in range(3)])
    pages = client.responses.input_items.list(second.id, limit=2, order="asc")
    assert [item.content[0].text for item in pages] == ["0", "1", "2"]


@step
def deleted():
    response = create(**MODEL, input="one")
    client.responses.delete(response.id)
    raises(openai.NotFoundError, lambda: client.responses.retrieve(response.id))


@step
def cancelled_in_the_background():
    response = create(**MODEL, input="/wait", background=True)
    assert response.status == "queued", response
    assert client.responses.cancel(response.id).status == "cancelled"


@step
def made_in_the_background():
    response = create(**MODEL, input="one two", background=True)
    while response.status in ("queued", "in_progress"):
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    assert response.output_text == "one two", response


@step
def a_stream_is_taken_up_again():
    events = list(create(**MODEL, input="one two", background=True, stream=True))
    id = events[0].response.id
    again = list(client.responses.retrieve(id, stream=True, starting_after=4))
    assert [event.sequence_number for event in again] == list(range(5, len(events)))
    assert again[-1].type == "response.completed"


@step
def a_conversation():
    conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "one"}])
    create(**MODEL, conversation=conversation.id, input="two")
    texts = [item.content[0].text for item in client.conversations.items.list(conversation.id, order="asc")]
    assert texts == ["one", "two", "two"], texts
    assert client.conversations.update(conversation.id, metadata={"a": "b"}).metadata == {"a": "b"}
    assert client.conversations.delete(conversation.id).deleted


@step
def counted():
    count = client.responses.input_tokens.count(**MODEL, input="Hello you")
    assert count.input_tokens == create(**MODEL, input="Hello you").usage.input_tokens


@step
def compacted():
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    compaction = client.responses.compact(**MODEL, input=said)
    assert [item.type for item in compaction.output] == ["message", "compaction"], compaction.output
    items = [item.model_dump(exclude_none=True) for item in compaction.output]
    response = create(**MODEL, input=[*items, {"role": "user", "content": "three"}])
    assert response.output_text == "three", response


@step
def a_hosted_tool_is_refused_by_name():
    error = raises(openai.BadRequestError, lambda: create(**MODEL, input="x", tools=[{"type": "code_interpreter", "container": {"type": "auto"}}]))
    assert error.param == "tools[0].type" and "code_interpreter" in error.message, error


run()
