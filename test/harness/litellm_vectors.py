"""Makes embeddings and rankings through LiteLLM as a library, as its users write it."""

import os

# Its list of prices is otherwise fetched when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
from steps import KEY, URL, run, step  # noqa: E402

litellm.telemetry = False
litellm.suppress_debug_info = True


@step
def embedding():
    made = litellm.embedding(
        model="openai/text-embedding-3-small", input=["a quay", "gulls"], api_base=URL, api_key=KEY, max_retries=0
    )
    assert [len(each["embedding"]) for each in made.data] == [64, 64], made
    assert made.usage.prompt_tokens == 11, made.usage


@step
def rerank():
    made = litellm.rerank(
        model="hosted_vllm/ranker",
        query="when the harbour opens",
        documents=["gulls eat fish", "the harbour opens at six"],
        top_n=1,
        api_base=URL,
        api_key=KEY,
    )
    assert [each["index"] for each in made.results] == [1], made


run()
