"""Makes embeddings through llama-index, as its users write it."""

import asyncio

from llama_index.embeddings.openai import OpenAIEmbedding
from steps import KEY, URL, run, step

vectors = OpenAIEmbedding(model="text-embedding-3-small", api_base=URL, api_key=KEY, max_retries=0)
TEXTS = ["the harbour opens at six", "gulls eat fish"]


def nearest(documents, query):
    scores = [sum(a * b for a, b in zip(query, each)) for each in documents]
    assert scores[0] > scores[1], scores


@step
def texts_and_a_query():
    nearest(vectors.get_text_embedding_batch(TEXTS), vectors.get_query_embedding("when the harbour opens"))


@step
def async_texts():
    nearest(asyncio.run(vectors.aget_text_embedding_batch(TEXTS)), vectors.get_text_embedding(TEXTS[0]))


@step
def another_name():
    own = OpenAIEmbedding(model_name="text-embedding-3-small", api_base=URL, api_key=KEY)
    assert own.get_text_embedding(TEXTS[0]) == vectors.get_text_embedding(TEXTS[0])


run()
