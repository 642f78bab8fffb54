"""Scored queries to rank, in memory or on Spark."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from isrr.engines.local import InMemory
from isrr.engines.source import open_source
from isrr.engines.spark import SparkRows
from isrr.errors import GuaranteeError


@contextmanager
def opened_rows(scored: str, columns: dict[str, Any], where: dict[str, Any]) -> Iterator[InMemory | SparkRows]:
    """Scored queries, in memory or on Spark."""
    if where["engine"] == "dask":
        raise GuaranteeError("rankings are made by engine 'local' or 'spark', not by 'dask'")
    if where["engine"] == "local" and where["trust_layout"]:
        raise GuaranteeError("rankings by engine 'local' are made in memory; leave out --trust-layout, or use 'spark'")
    with closing(open_source(scored, columns=columns, **where)) as rows:
        assert isinstance(rows, InMemory | SparkRows)
        yield rows
