"""Checks of our own beside those of schemathesis: they close what its settings have to leave open."""

import re

import schemathesis
from schemathesis.specs.openapi.checks import ensure_resource_availability

# What a request that fits its schema may still be refused for: rules across fields, and what is stored.
REFUSALS = re.compile(
    "|".join(
        (
            # Names that must exist.
            r"(after|before) must name an item of the list",
            r"cache_id must name a cache that is not in status 'error'",
            # One field rules another.
            r"expired_at and ttl must not both be given",
            r"expired_at must be at most",
            r"messages must not be empty",
            r"top_logprobs needs logprobs to be true",
            r"function\.name must be unique",
            r"must name a function of tools",
            r"n must be 1",
            r"partial (may be true only|must not be true beside|is not supported in a cache)",
            r"must follow an assistant message whose tool_calls",
            r"tool_choice",
            r"cannot continue a partial message",
            r"max_tokens and max_completion_tokens mean the same",
            r"must be the name of one of the tools",
            r"tools must (have at most|be null)",
            # What is there already counts.
            r"the balance would be \d+ tokens",
            # Bounds in bytes, where a schema has characters.
            r"must have at most \d+ bytes",
            # The mini-language of a cache message, and metadata in a query.
            r"messages\[0\]\.content",
            r"metadata",
            # A JSON schema inside the request has a schema that would be as long as this file.
            r"(parameters|schema)\b.* must ",
            # What the model or the engine can do.
            r"Input token length too long",
            r"Your request exceeded model token limit",
            r"is an image, and the model takes text only",
            # What the bytes of a data URL are.
            r"must hold a png, jpeg, webp, gif or bmp image; its bytes are",
            # Fields beside those of the form may have names that no form can carry.
            r"the form cannot be read: Malformed part header",
        )
    )
)


@schemathesis.check
def refusal_is_beyond_the_schema(ctx, response, case):
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    message = response.json()["error"]["message"]
    if not REFUSALS.search(message):
        raise AssertionError(f"refused, but fits its schema: {message}")


@schemathesis.check
def server_error_is_that_of_a_document(ctx, response, case):
    """By contract the content of a file that cannot be read is a 500; no other one is allowed."""
    if response.status_code < 500:
        return
    error = response.json()["error"]
    if case.operation.label != "GET /v1/files/{id}/content" or not error["message"].startswith(
        "Failed to extract file: "
    ):
        raise AssertionError(f"a server error: {error['message']}")


@schemathesis.check
def what_was_created_is_there(ctx, response, case):
    """The check itself takes the path of tags for one within the cache that was created just before, and so the 404 for
    another, deleted cache for a loss of that one."""
    if case.operation.label != "POST /v1/caching/refs/tags":
        return ensure_resource_availability(ctx, response, case)


@schemathesis.check
def stream_ends_as_it_should(ctx, response, case):
    if response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        if not response.content.endswith(b"\n\ndata: [DONE]\n\n"):
            raise AssertionError("the stream does not end with [DONE]")


@schemathesis.check
def answer_has_an_id_and_no_stack(ctx, response, case):
    if "x-request-id" not in response.headers:
        raise AssertionError("no x-request-id")
    if response.status_code >= 400 and re.search(rb"\bat .*\.js:\d+", response.content):
        raise AssertionError("a stack is shown")


@schemathesis.hook("before_call")
def operators_key(context, case, kwargs):
    """Alice is the operator, too. A request without a key, or with another one, gets no header: a header of the settings would be
    sent for them as well."""
    headers = case.headers or {}
    if case.path.startswith("/admin/") and headers.get("Authorization") == "Bearer key-of-alice":
        headers["Authorization"] = "Bearer key-of-the-operator"


@schemathesis.hook
def before_call(context, case, kwargs):
    """The HTTP library meets other names of headers, and control characters, with silence for ten seconds: the tests
    of raw connections hold that, and here it would only cost time."""
    for name, value in list((case.headers or {}).items()):
        if not re.fullmatch(r"[A-Za-z0-9-]+", name) or re.search(r"[^\t\x20-\xff]", str(value)):
            del case.headers[name]
