"""Caches a long document once and asks ten questions about it, through the official Python SDK from 1.0.0 to the newest.

Prints one JSON line a step. It knows nothing of the service but its address and a key.
"""

import json
import os
import time
import traceback
from typing import Dict

import openai
from openai import OpenAI

MODEL = "svc-v1-8k"
KEY = os.environ["API_KEY"]
# Another one in each run, so that no run finds what the one before it left.
EDITION = f"Edition {int(time.time() * 1000) % 1000000:06d}\n"
ARTICLES = [f"Article {n}: the keeper of room {n} holds key number {n * 7 % 50}." for n in range(1, 13)]
DOCUMENT = EDITION + "\n".join(ARTICLES)
QUESTIONS = [f"Which key does the keeper of room {n} hold?" for n in range(1, 11)]
HANDBOOK = [{"role": "system", "content": DOCUMENT}]
Json = Dict[str, object]


def question(text):
    return {"role": "user", "content": text}


class Session:
    def __init__(self, url):
        self.client = OpenAI(base_url=url, api_key=KEY, timeout=60)
        self.url = url
        self.cache = {}

    def get(self, path):
        return self.client.get(path, cast_to=Json)

    def create(self, text, **more):
        body = {"model": "svc-v1", "messages": [{"role": "system", "content": text}], "ttl": 600, **more}
        cache = self.client.post("/caching", cast_to=Json, body=body)
        assert cache["status"] == "pending" and cache["tokens"] > 0, cache
        return self.until(cache["id"], "ready")

    def until(self, cache_id, status):
        deadline = time.monotonic() + 60
        cache = self.get(f"/caching/{cache_id}")
        while cache["status"] != status and time.monotonic() < deadline:
            time.sleep(0.02)
            cache = self.get(f"/caching/{cache_id}")
        assert cache["status"] == status, cache
        return cache

    def ask(self, messages, client=None, **more):
        """The headers and the answer."""
        completions = (client or self.client).chat.completions
        raw = completions.with_raw_response.create(model=MODEL, messages=messages, max_tokens=8, **more)
        return raw.headers, raw.parse()

    def check_hit(self, headers, usage, cache):
        assert headers["svc-context-cache-status"] == "hit", dict(headers)
        assert headers["svc-context-cache-id"] == cache["id"]
        saved = int(headers["svc-context-cache-token-saved"])
        assert saved >= cache["tokens"] > 0, (saved, cache["tokens"])
        usage = usage.model_dump() if hasattr(usage, "model_dump") else usage
        assert usage["cached_tokens"] == saved == usage["prompt_tokens_details"]["cached_tokens"], usage
        expiry = headers["svc-context-cache-token-exp"]
        assert headers["svc-context-cache-token-ttl"] == expiry and int(expiry) > time.time()
        assert "svc-context-cache-miss-reason" not in headers

    # ------------------------------------------------------------ the session

    def a_document_is_cached_once(self):
        self.cache = self.create(DOCUMENT, tags=["handbook"], name="handbook", metadata={"kind": "test"})
        assert self.get("/caching/refs/tags/handbook")["cache_id"] == self.cache["id"]
        found = self.get("/caching?metadata[kind]=test")["data"]
        assert [cache["id"] for cache in found] == [self.cache["id"]], found

    def ten_questions_by_header(self):
        extra = {"X-Svc-Context-Cache": self.cache["id"], "X-Svc-Context-Cache-Reset-TTL": "900"}
        for text in QUESTIONS:
            headers, answer = self.ask(HANDBOOK + [question(text)], extra_headers=extra)
            self.check_hit(headers, answer.usage, self.cache)
            assert answer.choices[0].message.content
        expiry = self.get(f"/caching/{self.cache['id']}")["expired_at"]
        assert expiry == int(headers["svc-context-cache-token-exp"]) > self.cache["expired_at"], expiry

    def ten_questions_by_message(self):
        for text in QUESTIONS:
            named = {"role": "cache", "content": "tag=handbook;reset_ttl=900"}
            headers, answer = self.ask([named, question(text)])
            self.check_hit(headers, answer.usage, self.cache)
            assert answer.choices[0].message.content

    def header_message_and_no_cache_answer_alike(self):
        messages = HANDBOOK + [question(QUESTIONS[0])]
        by_header = self.ask(messages, extra_headers={"X-Svc-Context-Cache": self.cache["id"]})[1]
        by_message = self.ask([{"role": "cache", "content": "tag=handbook"}, question(QUESTIONS[0])])[1]
        headers, plain = self.ask(messages)
        texts = {answer.choices[0].message.content for answer in (by_header, by_message, plain)}
        assert len(texts) == 1, texts
        assert by_header.usage.prompt_tokens == by_message.usage.prompt_tokens == plain.usage.prompt_tokens
        assert "svc-context-cache-status" not in headers

    def a_streamed_answer(self):
        extra = {"X-Svc-Context-Cache": self.cache["id"]}
        headers, stream = self.ask(HANDBOOK + [question(QUESTIONS[1])], extra_headers=extra, stream=True)
        chunks = [chunk.model_dump() for chunk in stream]
        usage = [choice["usage"] for chunk in chunks for choice in chunk["choices"] if choice.get("usage")]
        assert len(usage) == 1
        self.check_hit(headers, usage[0], self.cache)

    def default_headers(self):
        client = OpenAI(
            base_url=self.url, api_key=KEY, timeout=60, default_headers={"X-Svc-Context-Cache": self.cache["id"]}
        )
        headers, answer = self.ask(HANDBOOK + [question(QUESTIONS[2])], client=client)
        self.check_hit(headers, answer.usage, self.cache)

    def a_miss_says_why(self):
        changed = [{"role": "system", "content": EDITION + "Article 1: the keeper of room 2"}]
        extra = {"X-Svc-Context-Cache": self.cache["id"]}
        headers, answer = self.ask(changed + [question("Who?")], extra_headers=extra)
        reason = headers["svc-context-cache-miss-reason"]
        assert (headers["svc-context-cache-status"], reason) == ("miss", "messages[0].content differs at character 45")
        assert answer.choices[0].message.content and "svc-context-cache-id" not in headers
        extra["X-Svc-Context-Cache-DryRun"] = "1"
        headers, answer = self.ask(HANDBOOK + [question("Who?")], extra_headers=extra)
        assert headers["svc-context-cache-status"] == "hit"
        assert (answer.choices[0].message.content, answer.usage.completion_tokens) == ("", 0)

    def a_new_version_takes_the_tag(self):
        newer = self.create(DOCUMENT + "\nArticle 13: no more.", tags=["handbook"])
        headers, answer = self.ask([{"role": "cache", "content": "tag=handbook"}, question(QUESTIONS[3])])
        self.check_hit(headers, answer.usage, newer)
        self.client.delete(f"/caching/{newer['id']}", cast_to=Json)

    def an_expired_cache_is_a_miss_that_comes_back(self):
        brief = self.create("Brief words. " * 20)
        prefix = brief["messages"]
        self.client.put(f"/caching/{brief['id']}", cast_to=Json, body={"ttl": 1})
        self.until(brief["id"], "inactive")
        headers, answer = self.ask([{"role": "cache", "content": f"cache_id={brief['id']}"}, question("Who?")])
        assert headers["svc-context-cache-status"] == "expired" and answer.choices[0].message.content
        assert self.get(f"/caching/{brief['id']}")["status"] == "inactive"
        extra = {"X-Svc-Context-Cache": brief["id"], "X-Svc-Context-Cache-Reset-TTL": "300"}
        headers, _ = self.ask(prefix + [question("Who?")], extra_headers=extra)
        assert headers["svc-context-cache-status"] == "expired", dict(headers)
        assert "svc-context-cache-id" not in headers
        back = self.until(brief["id"], "ready")
        assert back["expired_at"] > time.time() + 200, back
        headers, answer = self.ask(prefix + [question("And who else?")], extra_headers=extra)
        self.check_hit(headers, answer.usage, back)
        self.client.delete(f"/caching/{brief['id']}", cast_to=Json)

    def a_cache_that_cannot_be_made_says_why(self):
        result = [{"role": "tool", "tool_call_id": "c1", "content": "found"}]
        made = self.client.post("/caching", cast_to=Json, body={"model": "svc-v1", "messages": result})
        failed = self.until(made["id"], "error")
        assert failed["error"]["type"] == "invalid_request_error" and "tool" in failed["error"]["message"]
        try:
            self.ask([{"role": "cache", "content": f"cache_id={made['id']}"}, question("Who?")])
            raise AssertionError("a failed cache by message")
        except openai.BadRequestError as error:
            assert failed["error"]["message"] in error.response.json()["error"]["message"], error
        headers, answer = self.ask([question("Who?")], extra_headers={"X-Svc-Context-Cache": made["id"]})
        assert headers["svc-context-cache-status"] == "error" and answer.choices[0].message.content
        self.client.put(f"/caching/{made['id']}", cast_to=Json, body={"ttl": 60})
        assert self.until(made["id"], "error")["error"] == failed["error"]
        self.client.delete(f"/caching/{made['id']}", cast_to=Json)

    def tools_n_and_the_count_of_saved_tokens(self):
        parameters = {"type": "object", "properties": {"room": {"type": "integer"}}}
        tools = [{"type": "function", "function": {"name": "key_of", "parameters": parameters}}]
        cache = self.create("You look up keys. " * 20, tools=tools)
        extra = {"X-Svc-Context-Cache": cache["id"]}
        asked = cache["messages"] + [question("Which key opens room 3?")]
        # The oldest version knows no tools.
        more = {"extra_body": {"tools": tools}, "n": 2, "temperature": 0.8}
        headers, answer = self.ask(asked, extra_headers=extra, **more)
        assert len(answer.choices) == 2
        self.check_hit(headers, answer.usage, cache)
        assert answer.usage.prompt_tokens > int(headers["svc-context-cache-token-saved"]), "once, not twice"
        headers, _ = self.ask(asked, extra_headers=extra)
        assert headers["svc-context-cache-miss-reason"] == "tools has 0 items, the cache has 1 item", dict(headers)
        self.client.delete(f"/caching/{cache['id']}", cast_to=Json)

    def tags_and_pages(self):
        second = self.create("A second one.", tags=["second", "other"])
        bound = self.client.post(
            "/caching/refs/tags", cast_to=Json, body={"tag": "other", "cache_id": self.cache["id"]}
        )
        assert bound["object"] == "cache_object.tag" and bound["cache_id"] == self.cache["id"], bound
        tags = [tag["tag"] for tag in self.get("/caching/refs/tags?order=asc")["data"]]
        assert sorted(tags) == ["handbook", "other", "second"], tags
        assert self.get("/caching/refs/tags/second/content")["id"] == second["id"]
        newest = self.get("/caching?limit=1")["data"]
        rest = self.get(f"/caching?after={newest[0]['id']}")["data"]
        assert sorted(cache["id"] for cache in newest + rest) == sorted([second["id"], self.cache["id"]])
        self.client.delete(f"/caching/{second['id']}", cast_to=Json)
        try:
            self.ask([{"role": "cache", "content": "tag=second"}, question("Who?")])
            raise AssertionError("a tag whose cache is gone")
        except openai.NotFoundError as error:
            assert second["id"] in error.response.json()["error"]["message"], error
        for tag in ("second", "other", "never-bound"):
            assert self.client.delete(f"/caching/refs/tags/{tag}", cast_to=Json)["deleted"] is True

    def another_user_is_let_see_nothing(self):
        # Asked again after a timeout, the chat would find what its own first try left.
        other = OpenAI(base_url=self.url, api_key=os.environ["OTHER_KEY"], timeout=200, max_retries=0)
        extra = {"X-Svc-Context-Cache": self.cache["id"]}
        for ask in (
            lambda: other.get(f"/caching/{self.cache['id']}", cast_to=Json),
            lambda: self.ask(HANDBOOK + [question("Who?")], client=other, extra_headers=extra),
            lambda: self.ask([{"role": "cache", "content": f"cache_id={self.cache['id']}"}], client=other),
        ):
            try:
                ask()
                raise AssertionError("let in")
            except openai.PermissionDeniedError as error:
                assert "other user" in error.response.json()["error"]["message"], error
        assert other.get("/caching", cast_to=Json)["data"] == []
        headers, answer = self.ask(HANDBOOK + [question(QUESTIONS[9])], client=other)
        usage = answer.usage.model_dump()
        assert not usage.get("cached_tokens") and not usage.get("prompt_tokens_details"), usage

    def what_is_refused(self):
        for options, kind, message in (
            ("cache_id=cache-none", openai.NotFoundError, "Not found the cache cache-none"),
            ("cache_id=x;cache_id=x", openai.BadRequestError, "twice"),
        ):
            try:
                self.ask([{"role": "cache", "content": options}, question("Who?")])
                raise AssertionError(options)
            except kind as error:
                assert message in error.response.json()["error"]["message"], error
        try:
            self.client.post("/caching", cast_to=Json, body={"model": "svc-v1", "messages": [], "ttl": 0})
            raise AssertionError("ttl 0")
        except openai.BadRequestError as error:
            assert "ttl" in error.response.json()["error"]["message"], error

    def the_end(self):
        updated = self.client.put(f"/caching/{self.cache['id']}", cast_to=Json, body={"ttl": 60})
        assert updated["status"] == "pending", updated
        deleted = self.client.delete(f"/caching/{self.cache['id']}", cast_to=Json)
        expected = {"deleted": True, "id": self.cache["id"], "object": "context_cache_object.deleted"}
        assert deleted == expected, deleted
        extra = {"X-Svc-Context-Cache": self.cache["id"]}
        headers, answer = self.ask(HANDBOOK + [question("Who?")], extra_headers=extra)
        assert headers["svc-context-cache-status"] == "unknown" and answer.choices[0].message.content
        assert self.client.delete("/caching/refs/tags/handbook", cast_to=Json)["deleted"] is True
        assert self.get("/caching")["data"] == []


def main():
    steps = [name for name, value in vars(Session).items() if callable(value) and not name.startswith("_")]
    steps = steps[steps.index("a_document_is_cached_once") :]
    for engine in ("echo", "real"):
        session = Session(os.environ[f"{engine.upper()}_URL"])
        for name in steps:
            outcome = {"step": f"{engine}: {name.replace('_', ' ')}", "ok": True}
            began = time.monotonic()
            try:
                getattr(session, name)()
            except Exception:
                outcome.update(ok=False, error=traceback.format_exc()[-1500:])
            outcome["ms"] = 1000 * (time.monotonic() - began)
            print(json.dumps(outcome), flush=True)
    print(json.dumps({"step": "end", "ok": True, "ms": 0}), flush=True)


if __name__ == "__main__":
    main()
