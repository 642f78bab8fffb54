"""Every scorer keeps the laws of the protocol: it learns, comes back from disk, refuses what does not fit."""

import json
import signal
from importlib.util import find_spec

import numpy as np
import pytest
from scores_data import made_queries

from isrr.data.queries import Queries
from isrr.errors import DataError, MissingExtraError
from isrr_paper.features import Featured
from isrr_paper.paper_errors import ScorerError
from isrr_paper.scorers import scorer as scorer_module
from isrr_paper.scorers.scorer import KINDS, TrainingInterruptedError, load_scorer, mean_ndcg, scorer_class

QUICK = {
    "catboost": {"rounds": 30, "patience": 10, "threads": 1},
    "lightgbm": {"rounds": 30, "patience": 10, "threads": 1},
    "net": {"epochs": 15, "n_draws": 20, "device": "cpu", "batch_queries": 64, "learning_rate": 0.05},
    "xgboost": {"rounds": 30, "patience": 10, "threads": 1},
}
INSTALLED = [kind for kind in KINDS if find_spec("torch" if kind == "net" else kind)]
EVERY = [(kind, loss) for kind in INSTALLED for loss in scorer_class(kind).losses]
TRAIN, VALIDATION = made_queries(200, seed=1), made_queries(60, seed=2, first_id=1_000)


def quick(kind, **changes):
    return scorer_class(kind)(**(QUICK[kind] | changes))


@pytest.mark.parametrize(("kind", "loss"), EVERY)
def test_scorers_learn_and_come_back_from_disk_unchanged(kind, loss, tmp_path):
    scorer = quick(kind, loss=loss).fit(TRAIN, VALIDATION, folder=tmp_path)
    scores = scorer.score(VALIDATION)
    guesses = np.random.default_rng(3).normal(size=VALIDATION.n_rows)
    assert scorer.validation_ndcg == pytest.approx(mean_ndcg(VALIDATION, scores))
    assert scorer.validation_ndcg > mean_ndcg(VALIDATION, guesses) + 0.15
    loaded = load_scorer(tmp_path)
    assert type(loaded) is type(scorer)
    assert loaded.loss == loss
    np.testing.assert_array_equal(loaded.score(VALIDATION), scores)


@pytest.mark.parametrize("kind", INSTALLED)
def test_scores_come_in_the_callers_row_order(kind):
    scorer = quick(kind).fit(TRAIN, VALIDATION)
    rows = np.random.default_rng(4).permutation(VALIDATION.n_rows)
    query = np.repeat(VALIDATION.query_ids, VALIDATION.n_items)
    shuffled = Featured.from_arrays(features=VALIDATION.features[rows], query_ids=query[rows])
    grouped = Featured.from_arrays(features=VALIDATION.features, group=VALIDATION.n_items)
    np.testing.assert_allclose(scorer.score(shuffled), scorer.score(grouped)[rows], atol=1e-6)


@pytest.mark.parametrize("kind", INSTALLED)
def test_the_same_seed_trains_the_same_scorer(kind):
    first, second = (quick(kind, seed=5).fit(TRAIN, VALIDATION).score(VALIDATION) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", INSTALLED)
def test_normalisation_by_query_is_stored_and_applied(kind, tmp_path):
    quick(kind, normalize="query").fit(TRAIN, VALIDATION, folder=tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["normalize"] == "query"
    rescaled = Featured.from_arrays(
        features=VALIDATION.features * 4.0 - 1.0, query_ids=np.repeat(VALIDATION.query_ids, VALIDATION.n_items)
    )
    plain = Featured.from_arrays(
        features=VALIDATION.features, query_ids=np.repeat(VALIDATION.query_ids, VALIDATION.n_items)
    )
    loaded = load_scorer(tmp_path)
    near = np.isclose(loaded.score(rescaled), loaded.score(plain), atol=1e-4)
    assert near.mean() > 0.97  # a rounded feature may fall on the other side of a tree's cut


@pytest.mark.parametrize("kind", INSTALLED)
def test_manifests_say_what_the_scorer_is(kind, tmp_path):
    scorer = quick(kind, seed=6).fit(TRAIN, VALIDATION, folder=tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["kind"] == kind
    assert manifest["n_features"] == 6
    assert manifest["seed"] == 6
    assert manifest["validation_ndcg"] == pytest.approx(scorer.validation_ndcg, abs=2e-6)
    assert "isrr" in manifest["versions"]
    assert (tmp_path / manifest["model"]).is_file()


@pytest.mark.parametrize("kind", INSTALLED)
def test_ctrl_c_leaves_a_usable_scorer_and_says_so(kind, tmp_path):
    def press(done, total, ndcg):
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    scorer = quick(kind, **({"epochs": 500} if kind == "net" else {"rounds": 5_000, "patience": 5_000}))
    with pytest.raises(TrainingInterruptedError, match=f"training stopped after [34] of .* in {tmp_path}"):
        scorer.fit(TRAIN, VALIDATION, folder=tmp_path, progress=press)
    np.testing.assert_array_equal(load_scorer(tmp_path).score(VALIDATION), scorer.score(VALIDATION))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("kind", INSTALLED)
def test_other_features_are_refused_in_one_line(kind):
    scorer = quick(kind).fit(TRAIN, VALIDATION)
    with pytest.raises(ScorerError, match=r"^these queries have 4 features, the scorer was trained on 6; [^\n]*$"):
        scorer.score(made_queries(5, seed=7, n_features=4))
    with pytest.raises(DataError, match="no features"):
        scorer.score(Queries.from_arrays(scores=[1.0, 2.0], query_ids=[1, 1]))


def judged(features, grades):
    return Featured.from_arrays(features=features, relevance=grades, query_ids=np.arange(len(features)) // 2)


@pytest.mark.parametrize("kind", INSTALLED)
def test_what_cannot_be_learnt_from_is_refused_before_training(kind):
    features, grades = np.arange(8.0).reshape(8, 1), np.arange(8.0) % 4
    for bad, said in [
        (judged(np.empty((8, 0)), grades), "a feature matrix without columns"),
        (judged(np.ones((8, 2)), grades), "every feature has the same value in all rows"),
        (judged(features, grades * 100), "a relevance of 300 is too large"),
    ]:
        with pytest.raises(DataError, match=said):
            quick(kind).fit(bad, bad)


@pytest.mark.parametrize(("kind", "native"), [
    ("catboost", {"depth": 99}), ("lightgbm", {"num_leaves": -5}), ("xgboost", {"max_depth": -7}),
])  # fmt: skip
def test_what_a_library_raises_comes_as_one_line_of_ours(kind, native):
    if kind not in INSTALLED:
        pytest.skip(f"{kind} is not installed")
    with pytest.raises(ScorerError, match=rf"^{kind} could not train: (?!\[)[^\n]*$"):
        quick(kind, native=native).fit(TRAIN, VALIDATION)


@pytest.mark.parametrize("kind", INSTALLED)
def test_unknown_losses_and_untrained_scorers_are_refused(kind):
    with pytest.raises(ValueError, match="has no loss 'nonsense'; expected one of"):
        quick(kind, loss="nonsense")
    with pytest.raises(ScorerError, match="not trained yet"):
        quick(kind).score(VALIDATION)


@pytest.fixture
def saved(tmp_path):
    pytest.importorskip("lightgbm")
    quick("lightgbm", rounds=5).fit(TRAIN, VALIDATION, folder=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:40], "damaged: it is not JSON, or cut off"),
        (lambda text: "[]", "format is None; this version of isrr reads format 1"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "format is 9"),
        (lambda text: text.replace('"seed"', '"sead"'), "fields missing or unknown: sead, seed"),
        (lambda text: text.replace('"n_features": 6', '"n_features": "six"'), "n_features is 'six'"),
        (lambda text: text.replace('"lightgbm",', '"treebard",', 1), "kind 'treebard'; there are catboost"),
        (lambda text: text.replace('"depth"', '"death"'), "cannot be loaded as a lightgbm scorer: .*death"),
        (lambda text: text.replace('"model": "', '"model": "../'), "expected a file in the same folder"),
    ],
)
def test_a_damaged_manifest_is_refused_in_one_line(saved, damage, message):
    file = saved / "manifest.json"
    file.write_text(damage(file.read_text()))
    with pytest.raises(ScorerError, match=message) as refusal:
        load_scorer(saved)
    assert "\n" not in str(refusal.value)


def test_a_damaged_or_missing_model_file_is_refused(saved):
    model = next(saved.glob("model-*.txt"))
    model.write_text(model.read_text() + "more")
    with pytest.raises(ScorerError, match="damaged, it does not match"):
        load_scorer(saved)
    model.unlink()
    with pytest.raises(ScorerError, match="missing; expected the model that"):
        load_scorer(saved)
    with pytest.raises(ScorerError, match="no trained scorer found"):
        load_scorer(saved / "elsewhere")


def test_a_missing_library_is_named_with_the_command_that_brings_it(saved, monkeypatch):
    monkeypatch.setattr(scorer_module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"lightgbm is not installed: pip install .*\[paper\]'"):
        load_scorer(saved)


def test_saving_again_leaves_one_model_file(saved):
    quick("lightgbm", rounds=7, seed=1).fit(TRAIN, VALIDATION, folder=saved)
    assert len(list(saved.iterdir())) == 2
