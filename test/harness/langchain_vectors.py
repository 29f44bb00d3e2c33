"""Makes embeddings through LangChain, as its users write it."""

from langchain_openai import OpenAIEmbeddings
from steps import KEY, URL, run, step

# Of a model that it does not know it cannot cut texts into ids of tokens, so it sends them as they are.
vectors = OpenAIEmbeddings(
    model="text-embedding-3-small", base_url=URL, api_key=KEY, check_embedding_ctx_length=False, max_retries=0
)


@step
def documents_and_a_query():
    documents = vectors.embed_documents(["the harbour opens at six", "gulls eat fish"])
    query = vectors.embed_query("when the harbour opens")
    scores = [sum(a * b for a, b in zip(query, each)) for each in documents]
    assert scores[0] > scores[1], scores


run()
