"""Calibrating on a real Spark cluster gives the local engine's bits, whatever the layout and whatever dies."""

import json
import os
import signal
from contextlib import closing
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import isrr
import spark_cluster
import value_task
from isrr import DataError, EngineError, GPLRanker
from isrr.cli.main import app
from isrr.engines.cluster import READING, WHOLE_FILES
from isrr.engines.source import open_source
from spark_cluster import broken, judged, nan_deep_inside, with_column, write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(bool(spark_cluster.LACKING), reason=f"not installed: {', '.join(spark_cluster.LACKING)}"),
]
PROMISE = "ndcg@5 >= 90% of deterministic"
PATH = [GPLRanker.deterministic(), *(GPLRanker(temperature=float(t)) for t in np.geomspace(0.02, 5, 20))]
WIDENING = [GPLRanker.deterministic(), *(GPLRanker(threshold=t, decay=0.7, temperature=0.5) for t in (0.9, 0.5, 0.1))]
REQUESTS = {
    "losses": (PROMISE, {"path": PATH}),
    "draws": ("normalized_disparity@5 <= 0.9", {"path": WIDENING}),
}
PARTITIONS = pytest.mark.parametrize(("name", "n_partitions"), [("losses", 2), ("draws", 9)])


def asked(name, data, **where):
    """The outcome of a request for these data."""
    promise, options = REQUESTS[name]
    return isrr.calibrate(data, promise, **options, **where)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with spark_cluster.session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def many():
    return judged(2_500)


@pytest.fixture(scope="module")
def expected(many):
    """What the local engine answers to each request."""
    queries = isrr.read_queries(many)
    return {name: asked(name, queries) for name in REQUESTS}


@PARTITIONS
def test_rows_of_a_query_together_give_the_local_bits(spark, many, expected, name, n_partitions, tmp_path):
    files = write(many, tmp_path / "files", n_partitions)
    outcome = asked(name, files, engine="spark", trust_layout=True)
    assert outcome == expected[name] == asked(name, files, trust_layout=True)


@PARTITIONS
def test_scattered_rows_give_the_local_bits(spark, many, expected, name, n_partitions, tmp_path):
    rows = np.random.default_rng(20231).permutation(len(many))
    scattered = spark.read.parquet(write(many.take(rows), tmp_path / "files", 5))
    outcome = asked(name, scattered, engine="spark", partitions=n_partitions)
    assert outcome == expected[name]


@pytest.mark.parametrize("victims", [spark_cluster.executors, spark_cluster.python_workers])
def test_a_process_killed_in_the_middle_changes_no_bit(spark, many, expected, victims, tmp_path):
    files, seen, killed = write(many, tmp_path / "files", 12), [(0, 0)], []

    def kill_in_the_last_pass(done, total):
        seen.append((done, total))
        passes = sum(later < sooner for (sooner, _), (later, _) in pairwise(seen))
        if passes == 1 and (done < total or total == 0) and not killed:  # no task is known at the very beginning
            killed.append(victims(spark.sparkContext.applicationId)[0])
            os.kill(killed[0], signal.SIGKILL)

    outcome = asked("draws", files, engine="spark", trust_layout=True, progress=kill_in_the_last_pass)
    assert killed
    assert outcome == expected["draws"]


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """600 queries of text ids that do not rise, in three files."""
    table = judged(600).drop_columns("query_id")
    ids = np.repeat([f"q{i * 7 % 600}" for i in range(600)], 8)
    table = table.add_column(0, "query_id", pa.array(ids))
    folder = tmp_path_factory.mktemp("few")
    return table, write(table, folder / "files", 3)


@pytest.mark.parametrize("options", [{"trust_layout": True}, {"partitions": 9}, {}], ids=str)
def test_promises_of_every_kind(spark, few, options):
    table, files = few
    promises = [isrr.Promise.parse(PROMISE, per="segment"), isrr.Promise.parse("ndcg@5 >= 0.3")]
    local = isrr.calibrate(isrr.read_queries(table), promises)
    assert isrr.calibrate(files, promises, engine="spark", **options) == local
    if not options:
        again = judged(300, seed=7)
        assert isrr.check(local, spark.createDataFrame(again), "spark") == isrr.check(local, isrr.read_queries(again))


def test_a_file_without_queries_is_refused_where_it_is_a_partition(spark, tmp_path):
    table = judged(300)
    files = write(table, tmp_path / "files", 2)
    pq.write_table(table.slice(0, 0), tmp_path / "files" / "part-009.parquet")
    for given in (files, f"file://{files}"):
        with pytest.raises(DataError, match=r"part-009\.parquet: the table has no rows; with trust_layout"):
            isrr.calibrate(given, PROMISE, engine="spark", trust_layout=True)
    expected = isrr.calibrate(isrr.read_queries(table), PROMISE, path=PATH)
    assert isrr.calibrate(files, PROMISE, path=PATH, engine="spark") == expected
    scattered = spark.read.parquet(files).repartition(7, "query_id").where("query_id < 3")  # six at most hold queries
    seen = isrr.check(expected, scattered, "spark", trust_layout=True)
    assert seen.n_queries + seen.n_skipped == 3


@pytest.mark.parametrize("trust_layout", [True, False])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (nan_deep_inside, r"part-001\.parquet: .*column 'score', query '425': nan"),
        (
            lambda t: t.drop_columns("score"),
            r"part-001\.parquet: has other columns than .*: no 'score'; expected the same columns",
        ),
        (lambda t: with_column(t, "score", t["item_id"]), r"part-001\.parquet: .*'score' is string, not double"),
        (
            lambda t: with_column(t, "item_id", pa.array(["d1"] * len(t))),
            r"part-001\.parquet: .*appears twice",
        ),
    ],
    ids=["nan", "missing column", "other schema", "repeated item"],
)
def test_bad_rows_are_refused_in_one_line_that_names_file_and_query(spark, tmp_path, change, said, trust_layout):
    files = broken(judged(600), tmp_path, change)
    with pytest.raises(DataError, match=said) as refusal:
        isrr.calibrate(files, PROMISE, engine="spark", trust_layout=trust_layout)
    assert "\n" not in str(refusal.value)


def test_a_bad_row_of_no_query_is_told_by_its_file(spark, tmp_path):
    files = broken(judged(600), tmp_path, lambda t: with_column(t, "query_id", pa.nulls(len(t), pa.int64())))
    with pytest.raises(DataError, match=r"part-001\.parquet: partition \d+.*column 'query_id': no value"):
        isrr.calibrate(files, PROMISE, engine="spark", trust_layout=True)


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("ids", [np.arange(60), np.random.default_rng(3).permutation(60)], ids=["sorted", "unsorted"])
def test_a_query_cut_in_two_is_refused_where_the_layout_is_trusted(spark, tmp_path, ids, engine):
    table = with_column(judged(60), "query_id", pa.array(np.repeat(ids, 8)))
    (tmp_path / "files").mkdir()
    pq.write_table(table.slice(0, 244), tmp_path / "files" / "a.parquet")
    pq.write_table(table.slice(244), tmp_path / "files" / "b.parquet")
    files = f"{tmp_path}/files/*.parquet"
    with pytest.raises(DataError, match=rf"a\.parquet and .*b\.parquet: query '{ids[30]}' appears in two places"):
        isrr.calibrate(files, PROMISE, engine=engine, trust_layout=True)
    local = isrr.calibrate(isrr.read_queries(table), PROMISE)
    assert isrr.calibrate(files, PROMISE, engine=engine) == local


@pytest.mark.parametrize(
    ("data", "options", "error", "said"),
    [
        ("/nowhere/*.parquet", {}, DataError, "/nowhere/"),
        ("table", {}, DataError, "table: no such file"),
        ([1, 2], {}, DataError, "a list is not a path or a Spark table"),
        ("{files}", {"master": "local[3]"}, EngineError, r"runs on local-cluster.*, not on local\[3\]"),
        ("{files}", {"score": "points"}, DataError, "there is no column 'points'"),
    ],
)
def test_what_spark_cannot_read_is_refused(spark, few, data, options, error, said):
    data = few[1] if data == "{files}" else data
    with pytest.raises(error, match=said):
        isrr.calibrate(data, PROMISE, engine="spark", **options)


def test_a_cluster_that_fails_is_told_in_one_line(spark, few):
    rows = spark.read.parquet(few[1]).drop("relevance")
    rows = rows.selectExpr("*", "cast(raise_error('the disk is gone') AS double) AS relevance")
    for table in (rows, rows.orderBy("relevance")):  # sorting samples the rows before any task of ours runs
        with pytest.raises(EngineError, match=r"Spark gave up: .*the disk is gone") as failure:
            isrr.calibrate(table, PROMISE, engine="spark")
        assert "\n" not in str(failure.value)


def test_a_metric_of_one_s_own_is_certified_where_the_queries_are(spark, tmp_path):
    table = judged(400)
    margin = 2.0 + np.arange(len(table)) % 7
    files = write(table.append_column("margin", [margin]), tmp_path / "files", 3)
    own = isrr.Metric("margin", value=lambda queries: queries.column("margin"), columns=("value:margin",))
    promise = isrr.Promise(own, k=5, at_least=0.9, of="deterministic", bound=10.0)
    outcome = isrr.calibrate(files, promise, path=PATH, engine="spark")
    assert outcome == isrr.calibrate(files, promise, path=PATH)
    assert outcome.tests[0].n_queries > 0


def test_a_task_reads_a_column_of_numbers_by_its_name(spark, tmp_path):
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(value_task)  # workers do not see this folder
    few = judged(300)
    margin = np.arange(len(few)) / 4 - 10
    expected = float(margin @ (few["relevance"].to_numpy() > 0))
    files = write(few.append_column("margin", [margin]), tmp_path / "files", 3)
    for where in ({}, {"trust_layout": True}):
        with closing(open_source(files, "spark", values=["margin"], **where)) as source:
            assert source.run(value_task.SumMargins()) == expected


def test_without_item_ids_ties_fall_by_where_rows_stand(spark, tmp_path):
    """Scores of two values; every query stands in both files, the larger of which Spark reads first."""
    rng = np.random.default_rng(20232)
    score = rng.integers(0, 2, 600 * 6).astype(float)
    relevance = np.clip(rng.poisson(0.4, score.size) + score, 0, 3)
    table = pa.table({"query_id": np.repeat(np.arange(600), 6), "score": score, "relevance": relevance})
    small = np.arange(len(table)) % 6 < 2
    (tmp_path / "files").mkdir()
    pq.write_table(table.filter(small), tmp_path / "files" / "a.parquet")
    pq.write_table(table.filter(~small), tmp_path / "files" / "b.parquet")
    files = f"{tmp_path}/files/*.parquet"
    assert isrr.calibrate(files, PROMISE, engine="spark", partitions=3) == isrr.calibrate(files, PROMISE)
    rows = spark.read.parquet(str(tmp_path / "files" / "b.parquet"))
    expected = isrr.calibrate(tmp_path / "files" / "b.parquet", PROMISE)
    assert isrr.calibrate(rows, PROMISE, engine="spark", partitions=3) == expected


def test_spark_reads_the_files_that_are_named_and_no_others(spark, tmp_path):
    table = judged(300)
    table = table.rename_columns(["query.id", "item`id", *table.column_names[2:]]).append_column(
        "Score", table["score"]
    )
    names = {"query": "query.id", "item": "item`id"}
    pq.write_table(table.slice(0, 80), tmp_path / "part1.parquet")
    pq.write_table(table, tmp_path / "part[1].parquet")
    (tmp_path / "a b%20{c,d}").mkdir()
    pq.write_table(table, tmp_path / "a b%20{c,d}" / "part.parquet")
    expected = isrr.calibrate(isrr.read_queries(table, **names), PROMISE, path=PATH)
    for file, where in (("part[1].parquet", {}), ("a b%20{c,d}/p*.parquet", {"trust_layout": True})):
        found = isrr.calibrate(tmp_path / file, PROMISE, path=PATH, engine="spark", **names, **where)
        assert found == expected
    pq.write_table(table, tmp_path / "_part.parquet")
    pq.write_table(table, tmp_path / "co:lon.parquet")
    with pytest.raises(DataError, match=r"co:lon\.parquet: Spark reads no file with a colon"):
        isrr.calibrate(tmp_path / "co:lon.parquet", PROMISE, engine="spark", **names)
    with pytest.raises(DataError, match=r"_part\.parquet: Spark reads no file .* whose name begins with _"):
        isrr.calibrate(f"{tmp_path}/_p*.parquet", PROMISE, engine="spark", **names)


def test_files_that_spark_alone_can_reach_are_one_table_too(spark, tmp_path):
    table = judged(300)
    files = f"file://{write(table, tmp_path / 'files', 2)}"
    expected = isrr.calibrate(isrr.read_queries(table), PROMISE, path=PATH)
    assert isrr.calibrate(files, PROMISE, path=PATH, engine="spark") == expected
    text = with_column(table, "query_id", pa.array(table["query_id"].to_pylist(), pa.int32()))
    pq.write_table(text.slice(0, 8), tmp_path / "files" / "z.parquet")
    with pytest.raises(DataError, match=r"z\.parquet: has other columns .*: 'query_id' is int32, not int64"):
        isrr.calibrate(files, PROMISE, engine="spark")
    (tmp_path / "files" / "z.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"z\.parquet: cannot be read"):
        isrr.calibrate(files, PROMISE, engine="spark")
    list_of_eight = with_column(table.slice(0, 8), "relevance", pa.array(np.ones(8))).drop_columns("query_id")
    for query in ("01", "1"):  # two texts, one number
        folder = tmp_path / "hive" / f"query_id={query}"
        folder.mkdir(parents=True)
        pq.write_table(list_of_eight, folder / "a.parquet")
    assert isrr.check(expected, f"file://{tmp_path}/hive", "spark").n_queries == 2


def test_files_of_made_ids_are_told_on_spark(spark, tmp_path):
    for name in "ab":
        table = judged(300).drop_columns("query_id")
        isrr.write_queries(isrr.read_queries(table, group=[8] * 300), tmp_path / f"{name}.parquet")
    assert isrr.calibrate(tmp_path / "a.parquet", PROMISE, path=PATH, engine="spark").provenance.made_ids
    with pytest.raises(DataError, match=r"a\.parquet: its query ids were made from positions"):
        isrr.calibrate(f"{tmp_path}/*.parquet", PROMISE, engine="spark")


def test_the_settings_of_a_session_are_left_alone(spark, few):
    names = [*READING, *WHOLE_FILES]
    before, seen = [spark.conf.get(name) for name in names], []
    for data in (few[1], spark.read.parquet(few[1]).coalesce(1)):
        isrr.calibrate(
            data,
            PROMISE,
            path=PATH,
            engine="spark",
            trust_layout=True,
            progress=lambda *_: seen.append([spark.conf.get(name) for name in names]),
        )
    assert all(each == before for each in seen)
    assert seen


def command(*arguments):
    """A command that finds the session there is."""
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)


ON_SPARK = ("--engine", "spark", "--master", spark_cluster.MASTER)


def test_the_command_line_calibrates_evaluates_and_ranks_on_spark(spark, few, tmp_path):
    table, files = few
    pq.write_table(table, tmp_path / "all.parquet")
    here, there = (tmp_path / "all.parquet", "local", ()), (files, "spark", ON_SPARK)
    measured = []
    for data, name, where in (here, there):
        ranker, ranked = tmp_path / f"{name}.json", tmp_path / f"{name}.parquet"
        assert command("calibrate", data, "-p", PROMISE, "-o", ranker, *where).exit_code == 0
        measured.append(json.loads(command("check", ranker, data, "--json", *where).stdout))
        done = command("rank", ranker, data, "-o", ranked, "--session", "s", *where)
        assert done.exit_code == 0
        assert "600 queries, 3,000 places" in done.stdout
    assert (tmp_path / "spark.json").read_bytes() == (tmp_path / "local.json").read_bytes()
    assert measured[0] == measured[1]
    order = [("query_id", "ascending"), ("rank", "ascending")]
    ranked = [pq.read_table(tmp_path / f"{name}.parquet").sort_by(order) for name in ("local", "spark")]
    assert ranked[0].equals(ranked[1])


@pytest.mark.parametrize(
    ("query", "item", "items"),
    [
        (pa.float64(), pa.decimal128(10, 2), ["1.00", "2.00"]),
        (pa.decimal128(4, 0), pa.bool_(), ["false", "true"]),
        (pa.int32(), pa.date32(), ["2024-02-29", "2025-01-01"]),
    ],
    ids=str,
)
def test_ranked_ids_keep_their_type(spark, few, query, item, items, tmp_path):
    isrr.calibrate(isrr.read_queries(few[0]), PROMISE, path=PATH).save(tmp_path / "ranker.json")
    table = judged(30, n_items=2)
    table = with_column(table, "query_id", table["query_id"].cast(pa.string()).cast(query))
    table = with_column(table, "item_id", pa.array(items * 30).cast(item))
    pq.write_table(table, tmp_path / "scored.parquet")
    for name, where in (("local", ()), ("spark", ON_SPARK)):
        files = (tmp_path / "ranker.json", tmp_path / "scored.parquet", "-o", tmp_path / f"{name}.parquet")
        assert command("rank", *files, "--session", "s", *where).exit_code == 0
    order = [("query_id", "ascending"), ("rank", "ascending")]
    local, ranked = (pq.read_table(tmp_path / f"{name}.parquet").sort_by(order) for name in ("local", "spark"))
    assert (ranked.schema.field("query_id").type, ranked.schema.field("item_id").type) == (query, item)
    for column in ("query_id", "item_id"):
        local = with_column(local, column, local[column].cast(pa.string()).cast(ranked[column].type))
    assert ranked.equals(local)


def test_a_table_without_rows_is_not_ranked(spark, few, tmp_path):
    isrr.calibrate(isrr.read_queries(few[0]), PROMISE, path=PATH).save(tmp_path / "ranker.json")
    pq.write_table(few[0].slice(0, 0), tmp_path / "none.parquet")
    files = (tmp_path / "ranker.json", tmp_path / "none.parquet", "-o", tmp_path / "ranked.parquet")
    done = command("rank", *files, *ON_SPARK)
    assert (done.exit_code, (tmp_path / "ranked.parquet").exists()) == (2, False)
    assert "none.parquet: the table has no rows" in done.stderr
