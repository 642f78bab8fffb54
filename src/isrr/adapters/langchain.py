"""A ranker as a document compressor of LangChain: retrieved documents with scores in, a list drawn from them out."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

from isrr.adapters import ranker_of
from isrr.errors import DataError, MissingExtraError

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.runnables import ensure_config
    from pydantic import ConfigDict, field_validator
except ModuleNotFoundError:
    raise MissingExtraError("langchain-core", "langchain") from None


class StochasticCompressor(BaseDocumentCompressor):
    """Returns the first k documents of an order drawn by a ranker; the text of the query is the query's id.

    Attributes:
        ranker: A ranker, a certificate or abstention, or the file of one.
        k: How many documents to return, by default the ranker's k.
        score_key: Where a document's metadata hold its score; higher is better.
        session_key: Where the runnable's config holds the session, under `configurable` or `metadata`; retrievers pass
            on the latter only. The same session gets the same order; with None, every call is a fresh draw.

    Example:
        >>> from isrr import GPLRanker
        >>> documents = [Document(text, metadata={"relevance_score": len(text)}) for text in ("a", "ccc", "bb")]
        >>> compressor = StochasticCompressor(ranker=GPLRanker.deterministic(k=2), session_key=None)
        >>> print(*(document.page_content for document in compressor.compress_documents(documents, "letters")))
        ccc bb
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    ranker: Any
    k: int | None = None
    score_key: str = "relevance_score"
    session_key: str | None = "session_id"
    _read = field_validator("ranker")(ranker_of)

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        """Return the documents to show, in their order."""
        config = ensure_config()
        values = {**config["metadata"], **config["configurable"], **(getattr(callbacks, "metadata", None) or {})}
        session = values.get(self.session_key)
        if session is None and self.session_key is not None:
            raise DataError(
                f"the config has no session; expected {self.session_key!r} under `configurable`, or, with a retriever, "
                "under `metadata`; session_key=None draws afresh at every call"
            )
        scores = [document.metadata.get(self.score_key) for document in documents]
        for number, score in enumerate(scores):
            if not isinstance(score, Real):
                raise DataError(f"document {number}: metadata[{self.score_key!r}] is {score!r}; expected a number")
        ids = [document.id for document in documents]
        order = self.ranker.rank(scores, query, session, self.k, None if None in ids else ids) if documents else []
        return [documents[i] for i in order]
