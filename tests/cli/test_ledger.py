"""Looks at the same judged queries are counted, whoever looks, and a certificate says what holds for all of them."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from typer.testing import CliRunner

from isrr import Promise, Queries, calibrate, load, write_queries
from isrr.cli.ledger import NAME, note_look
from isrr.cli.main import app

PROMISE = "ndcg@5 >= 90% of deterministic"


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, 1_000, p=[0.5, 0.3, 0.15, 0.05])
    return Queries.from_arrays(
        scores=relevance + rng.normal(scale=0.8, size=1_000),
        relevance=relevance,
        query_ids=np.repeat(np.arange(100), 10),
        item_ids=[f"d{i}" for i in range(1_000)],
    )


@pytest.fixture(scope="module")
def first(judged):
    """The outcome of a first look."""
    return calibrate(judged, PROMISE)


def looked(folder, outcome, validation=None):
    """The outcome, noted in the ledger of a folder."""
    look, spent = note_look(folder / "judged.parquet", folder / "out.json", outcome, validation)
    return replace(outcome, provenance=replace(outcome.provenance, look=look, spent=spent))


def planned(outcome, attempts, seed=0, **changes):
    return replace(outcome, provenance=replace(outcome.provenance, planned_looks=attempts, seed=seed), **changes)


def test_a_further_look_is_counted_and_marked_wherever_results_go(judged, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    tried = [
        ("judged", ".", PROMISE, None),
        ("judged", "elsewhere", PROMISE, None),
        ("renamed", "elsewhere", "ndcg@5 >= 0.4", "0.9333"),
    ]
    for look, (name, place, promise, together) in enumerate(tried):
        data, ranker = tmp_path / f"{name}.parquet", tmp_path / place / "ranker.json"
        write_queries(judged, data)
        attempts = ["--attempts", "3"] if together else []
        done = CliRunner().invoke(app, ["calibrate", str(data), "-p", promise, "-o", str(ranker), *attempts])
        said = f"look 2 at the same data; that all of them hold has no more than confidence {together}: plan them"
        assert (said in done.stdout) == (f"warning      {said}" in str(load(ranker))) == (together is not None)
        assert (f"looks at judged queries are counted in {tmp_path}/.isrr-looks.jsonl" in done.stderr) == (look == 0)


@pytest.mark.parametrize(
    ("attempts", "confidences", "together"),
    [
        ((1, 1, 3, 9), (0.95,) * 4, (None, "0.9", "0.8833", "0.8778")),
        ((3, 3, 3, 3), (0.95,) * 4, (None, None, None, "0.9333")),
        ((1, 2, 2), (0.99, 0.95, 0.95), (None, None, "0.94")),
        ((1, 1), (0.9, 0.99), (None, "0.89")),
        ((1, 1, 1), (0.5,) * 3, (None, "0", "0")),
    ],
)
def test_what_all_looks_have_spent_is_held_against_the_confidence(first, attempts, confidences, together, tmp_path):
    for seed, (n, confidence, left) in enumerate(zip(attempts, confidences, together, strict=True)):
        said = " ".join(looked(tmp_path, planned(first, n, seed, confidence=confidence)).warnings)
        assert (f"look {seed + 1} at the same data" in said) == (left is not None)
        assert left is None or f"no more than confidence {left}: plan" in said


def test_questions_that_differ_in_anything_are_looks_of_their_own(first, judged, tmp_path):
    promise = first.promises[0]
    others = [replace(promise, **change) for change in ({}, {"gain_kind": "linear"}, {"empty_query": "one"})]
    bounded = [Promise("disparity", 5, at_most=0.5, bound=bound) for bound in (10.0, 20.0)]
    questions = [(replace(first, promises=(other,)), None) for other in others + bounded]
    questions += [(first, judged[:20]), (first, judged[20:40])]  # as many validation queries, but others
    elsewhere = [replace(first.tests[0], **change) for change in ({"segment": "de"}, {"risk": 0.25})]
    questions += [(replace(first, tests=(test,)), None) for test in elsewhere]  # other segments, or groups of items
    for _ in range(2):
        looks = [looked(tmp_path, *question).provenance.look for question in questions]
        assert looks == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_queries_scored_anew_are_looked_at_again_and_others_are_not(first, judged, tmp_path):
    rng = np.random.default_rng(20231)
    retrained = judged.with_scores(judged.scores + rng.normal(scale=0.1, size=judged.n_rows))
    others = Queries.from_arrays(
        scores=judged.scores, relevance=judged.relevance, query_ids=np.repeat(judged.query_ids, judged.n_items)
    )
    asked = [(first, 1), (calibrate(retrained, PROMISE), 2), (calibrate(others[10:], PROMISE), 1), (first, 1)]
    assert [looked(tmp_path, outcome).provenance.look for outcome, _ in asked] == [look for _, look in asked]


def test_a_line_that_names_no_judgments_or_was_cut_off_is_passed_or_found_again(first, tmp_path):
    looked(tmp_path, first)
    line = json.loads((tmp_path / NAME).read_text())
    del line["judgments"]
    (tmp_path / NAME).write_text(f'{json.dumps(line)}\n{{"data": "{line["data"]}"}}\n{{"data": "abc", "prom')
    for outcome, look in ((first, 1), (replace(first, confidence=0.9), 2), (first, 1), (planned(first, 4), 3)):
        assert looked(tmp_path, outcome).provenance.look == look


def test_looks_at_the_same_time_are_counted_one_by_one(first, tmp_path):
    n_rounds, n_looks = 40, 4
    together = Barrier(n_looks)

    def look(seed):
        numbers = []
        for data in range(n_rounds):
            provenance = replace(first.provenance, seed=seed, data=str(data), judgments=str(data))
            together.wait()
            numbers.append(looked(tmp_path, replace(first, provenance=provenance)).provenance.look)
        return numbers

    with ThreadPoolExecutor(n_looks) as pool:
        for numbers in zip(*pool.map(look, range(n_looks)), strict=True):
            assert sorted(numbers) == [1, 2, 3, 4]


def test_a_ledger_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(NAME).mkdir()
    done = CliRunner().invoke(app, ["calibrate", "nowhere.parquet", "-p", PROMISE])
    assert done.exit_code == 2
    assert "looks at the judged queries are counted here, and it is no file" in done.stderr
