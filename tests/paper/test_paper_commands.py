"""`isrr train` and `isrr score`: files in, files out, one line for what went wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scores_data import made_queries
from typer.testing import CliRunner

from isrr.data.tables import read_queries
from isrr_paper.cli import app
from isrr_paper.features import Featured, read_featured, write_featured
from isrr_paper.scorers.scorer import load_scorer

pytest.importorskip("lightgbm", reason="the commands are tested with LightGBM: pip install 'isrr[paper]'")


@pytest.fixture
def files(tmp_path):
    for name, queries in {
        "a": made_queries(60, seed=1),
        "b": made_queries(40, seed=2, first_id=500),
        "validation": made_queries(30, seed=3, first_id=1_000),
    }.items():
        write_featured(queries, tmp_path / f"{name}.parquet")
    return tmp_path


def isrr(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_training_and_scoring_go_from_files_to_files(files):
    model, scored = files / "model", files / "scored.parquet"
    parts = files / "a.parquet", files / "b.parquet"
    options = "--model", "lightgbm", "--loss", "lambdarank", "--threads", 1, "--set", "rounds=20", "--seed", 3
    held = "--validation", files / "validation.parquet", "--test", files / "validation.parquet"
    trained = isrr("train", *parts, *options, *held, "--out", model)
    assert trained.exit_code == 0, trained.output
    assert f"{model}: lightgbm, NDCG@5 0." in trained.stdout
    assert "on the test queries" in trained.stdout
    result = isrr("score", model, files / "validation.parquet", "--out", scored)
    assert result.exit_code == 0, result.output
    assert "30 queries" in result.stdout
    queries, expected = read_queries(scored), load_scorer(model).score(read_featured(files / "validation.parquet"))
    np.testing.assert_allclose(queries.in_caller_order(queries.need_scores()), expected)
    assert queries.relevance is not None


def named_columns(queries, file, order="abcdef"):
    """A table with a column for each feature, in some order."""
    columns = {"query_id": np.repeat(queries.query_ids, queries.n_items), "relevance": queries.relevance}
    pq.write_table(pa.table(columns | {name: queries.features[:, "abcdef".index(name)] for name in order}), file)
    return file


@pytest.fixture
def trained(files):
    table = named_columns(made_queries(60, seed=1), files / "named.parquet")
    options = "--threads", 1, "--set", "rounds=20", "--features", "[a-f]", "--out", files / "model"
    assert isrr("train", table, *options).exit_code == 0
    return files / "model"


@pytest.mark.parametrize("features", [(), ("--features", "f", "--features", "[a-e]"), ("--features", "[a-f]")])
def test_features_are_found_by_the_names_that_were_trained_on(files, trained, features):
    fresh = made_queries(30, seed=3, first_id=1_000)
    expected = load_scorer(trained).score(fresh)
    for order in ("abcdef", "fbdeca"):
        table = named_columns(fresh, files / "new.parquet", order)
        scored = isrr("score", trained, table, *features, "--out", files / "scored.parquet")
        assert scored.exit_code == 0, scored.output
        np.testing.assert_array_equal(read_queries(files / "scored.parquet").scores, fresh.in_query_order(expected, ""))


def test_missing_features_are_refused_by_name(files, trained):
    table = named_columns(made_queries(30, seed=3), files / "new.parquet", "fbde")
    refused = isrr("score", trained, table, "--out", files / "scored.parquet")
    assert refused.exit_code == 2
    assert f"{table}: no column 'a', 'c', which the scorer was trained on; the columns are query_id, " in (
        refused.stderr
    )
    refused = isrr("score", trained, table, "--features", "[bdef]", "--out", files / "scored.parquet")
    assert "features 'a', 'c' are missing; these queries have f, b, d, e" in refused.stderr


def test_validation_and_further_files_are_read_by_the_names_of_the_first(files):
    made = [made_queries(40, seed=seed, first_id=1_000 * seed) for seed in (1, 2, 3)]
    for folder, orders in (("straight", ["abcdef"] * 3), ("turned", ["abcdef", "fedcba", "cabfed"])):
        first, further, held_out = (
            named_columns(queries, files / f"{order}-{queries.query_ids[0]}.parquet", order)
            for queries, order in zip(made, orders, strict=True)
        )
        options = "--features", "[a-f]", "--threads", 1, "--set", "rounds=20", "--validation", held_out
        assert isrr("train", first, further, *options, "--out", files / folder).exit_code == 0
    np.testing.assert_array_equal(*(load_scorer(files / name).score(made[2]) for name in ("straight", "turned")))


def test_a_scorer_saved_before_features_had_names_still_scores(files, trained):
    manifest = json.loads((trained / "manifest.json").read_text())
    assert manifest.pop("feature_names") == list("abcdef")
    (trained / "manifest.json").write_text(json.dumps(manifest))
    table = named_columns(made_queries(30, seed=3), files / "new.parquet")
    assert isrr("score", trained, table, "--features", "[a-f]", "--out", files / "scored.parquet").exit_code == 0


def test_training_on_a_table_without_features_names_the_option_and_the_columns(files):
    table = named_columns(made_queries(30, seed=3), files / "new.parquet")
    refused = isrr("train", table, "--out", files / "model")
    assert refused.exit_code == 2
    assert "no features column (features, or named by --features); the columns are query_id, relevance, a, b, c" in (
        refused.stderr
    )


def test_scoring_queries_that_were_learnt_from_is_warned_of(files):
    arguments = "--threads", 1, "--set", "rounds=5", "--out", files / "model"
    assert isrr("train", files / "a.parquet", *arguments).exit_code == 0  # a fifth of them is set aside to stop by
    write_featured(
        Featured.concatenate([read_featured(files / f"{name}.parquet") for name in "ab"]), files / "ab.parquet"
    )
    for name, share in (("a", "100%"), ("b", None), ("ab", "60%")):
        scored = isrr("score", files / "model", files / f"{name}.parquet", "--out", files / "scored.parquet")
        assert scored.exit_code == 0
        assert (
            scored.stderr.startswith(f"isrr: warning: about {share} of these queries were used to train")
            if share
            else (scored.stderr == "")
        )


def test_validating_on_queries_that_are_trained_on_is_warned_of(files):
    for held, warned in (("a", True), ("b", False)):
        arguments = "--threads", 1, "--set", "rounds=5", "--validation", files / f"{held}.parquet"
        trained = isrr("train", files / "a.parquet", *arguments, "--out", files / f"model-{held}")
        assert trained.exit_code == 0, trained.output
        assert ("about 100% of the validation queries are also training queries" in trained.stderr) == warned


def test_ids_in_comments_of_text_are_kept(files):
    arguments = "--threads", 1, "--set", "rounds=5", "--out", files / "model"
    text = "".join(f"{row % 3} qid:{row // 9} 1:{row % 5} 2:{row % 7} #docid = GX-{row}\n" for row in range(180))
    (files / "judged.txt").write_text(text)
    assert isrr("train", files / "judged.txt", *arguments).exit_code == 0
    assert isrr("score", files / "model", files / "judged.txt", "--out", files / "scored.parquet").exit_code == 0
    assert read_queries(files / "scored.parquet").item_ids[:2].tolist() == ["GX-0", "GX-1"]


def test_a_grid_is_searched_and_its_best_point_told(files):
    fixed = "--set", "rounds=5", "--set", "max_bin=64", "--set", "learning_rate=0.3"
    arguments = "--grid", "--threads", 1, *fixed, "--out", files / "model"
    found = isrr("train", files / "a.parquet", *arguments)
    assert found.exit_code == 0, found.output
    assert "best of 4 points: depth" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--features", "nowhere"), "isrr: {files}/a.parquet: there is no column 'nowhere'; the columns are"),
        (("--model", "forest"), "isrr: unknown scorer 'forest'; expected one of catboost, lightgbm, net, xgboost"),
        (("--loss", "hinge"), "isrr: lightgbm has no loss 'hinge'; expected one of lambdarank, regression"),
        (("--set", "rounds"), "isrr: --set: expected NAME=VALUE, got 'rounds'"),
        (("--set", "round=5"), "isrr: lightgbm has no parameter 'round'; expected one of seed, normalize, loss"),
        (("--normalize", "rows"), "isrr: normalize must be one of none, query; got 'rows'"),
        (("--validation", "nowhere.parquet"), "isrr: nowhere.parquet"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(files, arguments, message):
    refused = isrr("train", files / "a.parquet", "--out", files / "model", "--threads", 1, *arguments)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(message.format(files=files))
    assert refused.stderr.count("\n") == 1
    assert not (files / "model").exists()


def test_scoring_without_a_scorer_is_refused(files):
    refused = isrr("score", files / "nowhere", files / "a.parquet", "--out", files / "scored.parquet")
    assert refused.exit_code == 2
    assert "no trained scorer found" in refused.stderr
