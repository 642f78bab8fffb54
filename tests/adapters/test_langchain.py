"""A ranker as a document compressor of LangChain."""

import asyncio
import subprocess
import sys

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from isrr import DataError
from isrr.adapters.langchain import StochasticCompressor
from isrr.ranker.gpl import GPLRanker

RANKER = GPLRanker(k=4, temperature=0.8)
SCORES = np.random.default_rng(20230).normal(size=12)
DOCUMENTS = [Document(f"text {i}", id=f"d{i}", metadata={"relevance_score": score}) for i, score in enumerate(SCORES)]


class Compressed(BaseRetriever):
    """Calls a compressor as LangChain's ContextualCompressionRetriever does."""

    compressor: StochasticCompressor

    def _get_relevant_documents(self, query, *, run_manager):
        return self.compressor.compress_documents(DOCUMENTS, query, callbacks=run_manager.get_child())


def config_of(session):
    return {"configurable": {"session_id": session}}


def traced(session):
    return {"metadata": {"session_id": session}}


def served(query, session, k=None):
    ranking = RANKER.rank(SCORES, query, session, k, [document.id for document in DOCUMENTS])
    return [DOCUMENTS[i] for i in ranking]


IN_A_FUNCTION = RunnableLambda(lambda query: StochasticCompressor(ranker=RANKER).compress_documents(DOCUMENTS, query))
RETRIEVER = Compressed(compressor=StochasticCompressor(ranker=RANKER))


@pytest.mark.parametrize(
    ("chain", "config"),
    [
        (IN_A_FUNCTION, config_of),
        (IN_A_FUNCTION, traced),
        (RETRIEVER, traced),
        (RunnablePassthrough() | RETRIEVER, traced),
    ],
    ids=["configurable", "metadata", "retriever", "retriever-in-a-chain"],
)
def test_the_session_in_the_config_gets_the_list_that_the_ranker_serves(chain, config):
    sessions = [f"u{i}" for i in range(20)]
    expected = [served("red shoes", session) for session in sessions]
    assert len({tuple(document.id for document in shown) for shown in expected}) > 5
    assert [chain.invoke("red shoes", config(session)) for session in sessions] == expected
    assert chain.batch(["red shoes"] * 20, [config(session) for session in sessions]) == expected
    assert asyncio.run(chain.ainvoke("blue shoes", config("u1"))) == served("blue shoes", "u1")


def test_the_compressor_is_called_asynchronously_with_its_session():
    compressor = StochasticCompressor(ranker=RANKER)

    async def shown(query):
        return await compressor.acompress_documents(DOCUMENTS, query)

    assert asyncio.run(RunnableLambda(shown).ainvoke("red shoes", config_of("u1"))) == served("red shoes", "u1")


def test_keys_and_length_can_be_chosen():
    documents = [Document("", metadata={"score": score}) for score in SCORES]  # without ids
    compressor = StochasticCompressor(ranker=RANKER, k=7, score_key="score", session_key="thread_id")
    chain = RunnableLambda(lambda query: compressor.compress_documents(documents, query))
    ranking = RANKER.rank(SCORES, "red shoes", "t1", 7)
    shown = chain.invoke("red shoes", {"configurable": {"thread_id": "t1"}})
    assert [id(document) for document in shown] == [id(documents[i]) for i in ranking]


def test_without_a_session_key_every_call_is_a_fresh_draw():
    compressor = StochasticCompressor(ranker=RANKER, session_key=None)
    drawn = {tuple(d.id for d in compressor.compress_documents(DOCUMENTS, "red shoes")) for _ in range(20)}
    assert len(drawn) > 5
    assert compressor.compress_documents([], "red shoes") == []


def test_a_missing_session_or_score_is_refused():
    compressor = StochasticCompressor(ranker=RANKER)
    with pytest.raises(DataError, match="config has no session; expected 'session_id' under `configurable`"):
        compressor.compress_documents(DOCUMENTS, "red shoes")
    with pytest.raises(DataError, match="or, with a retriever, under `metadata`"):
        RETRIEVER.invoke("red shoes", config_of("u1"))
    fresh, scored = StochasticCompressor(ranker=RANKER, session_key=None), DOCUMENTS[:1]
    for metadata in ({}, {"relevance_score": "0.3"}, {"relevance_score": None}):
        with pytest.raises(DataError, match=r"document 1: metadata\['relevance_score'\] is .*; expected a number"):
            fresh.compress_documents([*scored, Document("", metadata=metadata)], "red shoes")
    with pytest.raises(DataError, match="score 1 is nan"):
        fresh.compress_documents([*scored, Document("", metadata={"relevance_score": np.nan})], "red shoes")
    with pytest.raises(ValueError, match="scorekey"):
        StochasticCompressor(ranker=RANKER, scorekey="score")
    with pytest.raises(ValueError, match=r"missing\.json: no such file"):
        StochasticCompressor(ranker="missing.json")


def test_without_langchain_the_error_names_the_extra():
    probe = "import sys; sys.modules['langchain_core'] = None; import isrr.adapters.langchain"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert "langchain-core is not installed: pip install" in done.stderr.splitlines()[-1]
    assert "[langchain]'" in done.stderr.splitlines()[-1]
