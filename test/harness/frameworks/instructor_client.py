"""Drives a running service through instructor, as its users write it."""

import sys
from pathlib import Path
from typing import Annotated, Literal, Union

sys.path.insert(0, str(Path(__file__).parent.parent))

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field
from steps import KEY, URL, run, step


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field(pattern=r"^[A-Z][a-z]{2,8}$")


class Pet(BaseModel):
    pet: Annotated[Union[Dog, Cat], Field(discriminator="kind")]
    mail: str = Field(json_schema_extra={"format": "email"})


def ask(mode):
    client = instructor.from_openai(OpenAI(base_url=URL, api_key=KEY, max_retries=0), mode=mode)
    return client.chat.completions.create(
        model="svc-v1-8k", response_model=Pet, messages=[{"role": "user", "content": "Which pet?"}], max_retries=0
    )


@step
def by_tools():
    assert isinstance(ask(instructor.Mode.TOOLS), Pet)


@step
def by_strict_tools():
    assert isinstance(ask(instructor.Mode.TOOLS_STRICT), Pet)


@step
def by_json_schema():
    assert isinstance(ask(instructor.Mode.JSON_SCHEMA), Pet)


run()
