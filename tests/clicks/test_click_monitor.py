"""The watch by clicks: silent while the promise holds, and heard when it breaks."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from isrr.clicks.calibrate import certified, checked_promise
from isrr.clicks.simulate import Users, simulate
from isrr.clicks.table import read_clicks
from isrr.errors import PromiseError
from isrr.monitor.clicks import ClickMonitor
from isrr.monitor.watch import Monitor

PROMISE = checked_promise("clicks@3 >= 85% of deterministic")


@pytest.fixture
def certificate(queries, logger):
    return certified(simulate(queries, logger, 20_000, seed=3).impressions(), PROMISE, anchor=0.3)


def watched(certificate, queries, folder, relevance=None):
    judged = queries if relevance is None else replace(queries, relevance=relevance)
    shown = simulate(judged, certificate.ranker, 20_000, Users(noise=0.02), seed=5)
    log, clicks = shown.save(folder, certificate.id)
    watch = ClickMonitor(certificate)
    return watch, watch.update(log, read_clicks(clicks), within=60.0, now=1e9)


def test_a_promise_that_holds_raises_no_alarm(certificate, queries, tmp_path):
    watch, alarm = watched(certificate, queries, tmp_path)
    assert certificate.ranker.anchor == 0.3
    assert alarm is None
    assert 0.85 < watch.share < 1.05
    assert watch.n_units == 20_000


def test_a_promise_that_breaks_does(certificate, queries, tmp_path):
    best = np.zeros(queries.n_rows)
    best[queries.offsets[:-1] + queries.by_score[queries.offsets[:-1]]] = 3.0
    watch, alarm = watched(certificate, queries, tmp_path, relevance=best)
    assert watch.share < 0.85
    assert "is broken" in alarm


def test_lists_whose_clicks_may_still_come_wait(certificate, queries, tmp_path):
    log, clicks = simulate(queries, certificate.ranker, 500, seed=5).save(tmp_path, certificate.id)
    watch = ClickMonitor(certificate)
    watch.update(log, read_clicks(clicks), within=100.0, now=300.0)
    assert watch.n_units == 201


def test_what_cannot_be_watched_is_refused(certificate):
    with pytest.raises(PromiseError, match="has no anchor"):
        ClickMonitor(replace(certificate, ranker=replace(certificate.ranker, anchor=0.0)))
    with pytest.raises(PromiseError, match="monitor it with `clicks=`"):
        Monitor(certificate)
    assert read_clicks(pa.table({"list_id": ["a"], "item_id": ["b"]})).value.tolist() == [1.0]
