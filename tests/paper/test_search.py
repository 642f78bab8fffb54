"""Grid search: the best point wins, and a search that was killed goes on."""

import json
import signal

import numpy as np
import pytest
from scores_data import made_queries

from isrr_paper.paper_errors import ScorerError
from isrr_paper.scorers.scorer import TrainingInterruptedError, load_scorer
from isrr_paper.scorers.search import PAPER_GRID, search

pytest.importorskip("lightgbm", reason="the search is tested with LightGBM: pip install 'isrr[paper]'")

from isrr_paper.scorers.lightgbm import LightGBMScorer

TRAIN, VALIDATION = made_queries(80, seed=1), made_queries(30, seed=2, first_id=1_000)
GRID = {"learning_rate": (0.03, 0.3), "depth": (2, 4)}
SETTINGS = {"rounds": 15, "threads": 1}


class Counting(LightGBMScorer):
    """Notes each training."""

    trained = 0
    each_round = None

    def fit(self, *arguments):
        Counting.trained += 1
        return super().fit(*arguments, progress=Counting.each_round)


def run(folder, **changes):
    Counting.trained = 0
    return search(Counting, TRAIN, VALIDATION, folder, **({"grid": GRID, "settings": SETTINGS} | changes))


def test_the_papers_grid_has_48_points():
    assert np.prod([len(values) for values in PAPER_GRID.values()]) == 48


def test_the_best_point_is_left_in_the_folder(tmp_path):
    seen = []
    finished = run(tmp_path, progress=lambda *status: seen.append(status))
    best = max(finished, key=lambda entry: entry.validation_ndcg)
    loaded = load_scorer(tmp_path)
    assert [status[:2] for status in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert seen[-1][2] == best.validation_ndcg
    assert loaded.validation_ndcg == best.validation_ndcg
    assert {"learning_rate": loaded.learning_rate, "depth": loaded.depth} == best.point


def test_a_killed_search_goes_on_after_its_last_finished_point(tmp_path):
    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", grid={"learning_rate": (0.03,), "depth": (2, 4)})
    ledger = tmp_path / "cut" / "ledger.jsonl"
    ledger.write_text(ledger.read_text() + '{"point": {"learning_rate": 0.3, "dep')  # killed while writing
    resumed = run(tmp_path / "cut")
    assert Counting.trained == 2
    assert [(e.point, e.validation_ndcg) for e in resumed] == [(e.point, e.validation_ndcg) for e in whole]
    assert [json.loads(line) for line in ledger.read_text().splitlines()][1]["point"] == whole[0].point
    best, same = load_scorer(tmp_path / "whole"), load_scorer(tmp_path / "cut")
    np.testing.assert_array_equal(best.score(VALIDATION), same.score(VALIDATION))


@pytest.mark.parametrize("within", ["the search", "a training"])
def test_ctrl_c_stops_the_search_and_says_what_is_kept(within, tmp_path, monkeypatch):
    def press(done, total, ndcg):
        if done == 2:
            signal.raise_signal(signal.SIGINT)

    run(tmp_path, grid={"learning_rate": (0.03,), "depth": (2, 4)})
    with monkeypatch.context() as patched:
        if within == "a training":
            patched.setattr(Counting, "each_round", staticmethod(press))
        with pytest.raises(TrainingInterruptedError, match=r"search stopped after 2 points; the best .* goes on from"):
            run(tmp_path, progress=press if within == "the search" else None)
    assert load_scorer(tmp_path).kind == "lightgbm"
    run(tmp_path)
    assert Counting.trained == 2


def test_the_ledger_of_another_search_is_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(ScorerError, match=r"belongs to another search \(settings .*use another folder"):
        run(tmp_path, settings={"rounds": 20, "threads": 1})
