"""Makes embeddings and asks about an image through the official Python SDK, from 1.0.0 to the newest."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "harness"))

import openai
from openai import OpenAI
from steps import KEY, URL, raises, run, step

MODEL = "text-embedding-3-small"
TEXTS = ["a quay at dawn", "seven cranes"]
client = OpenAI(base_url=URL, api_key=KEY, timeout=30)


@step
def embeddings():
    made = client.embeddings.create(model=MODEL, input=TEXTS)
    assert [len(each.embedding) for each in made.data] == [64, 64], made
    assert made.usage.prompt_tokens == len("".join(TEXTS)), made.usage


@step
def floats_and_base64_are_the_same():
    # Without a format the SDK asks for base64 and decodes it.
    by_default = client.embeddings.create(model=MODEL, input=TEXTS[0]).data[0].embedding
    floats = client.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format="float").data[0].embedding
    assert max(abs(a - b) for a, b in zip(by_default, floats)) < 1e-6


@step
def token_ids_and_dimensions():
    ids = [list(text.encode()) for text in TEXTS]
    made = client.embeddings.create(model=MODEL, input=ids, extra_body={"dimensions": 8})
    assert [len(each.embedding) for each in made.data] == [8, 8]


@step
def errors():
    raises(openai.NotFoundError, lambda: client.embeddings.create(model="none", input="x"))
    error = raises(openai.BadRequestError, lambda: client.embeddings.create(model="seer", input="x"))
    assert "answers chats" in str(error), error


@step
def an_image():
    url = f"data:image/png;base64,{os.environ['IMAGE']}"
    content = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    answer = client.chat.completions.create(model="seer", messages=[{"role": "user", "content": content}])
    assert answer.choices[0].message.content.strip() == "What is it?", answer


run()
