"""A real Spark cluster gives the sample, the certificate and the rankings that one machine gives."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import isrr
import spark_cluster
from isrr import DataError, EngineError, GPLRanker
from isrr.cli.main import app
from spark_cluster import broken, judged, nan_deep_inside, with_column, write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(bool(spark_cluster.LACKING), reason=f"not installed: {', '.join(spark_cluster.LACKING)}"),
]
PROMISE = "ndcg@5 >= 90% of deterministic"
PATH = [GPLRanker.deterministic(), *(GPLRanker(temperature=float(t)) for t in np.geomspace(0.02, 5, 20))]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with spark_cluster.session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """600 queries of text ids that do not rise, in three files."""
    table = judged(600).drop_columns("query_id")
    ids = np.repeat([f"q{i * 7 % 600}" for i in range(600)], 8)
    table = table.add_column(0, "query_id", pa.array(ids))
    folder = tmp_path_factory.mktemp("few")
    return table, write(table, folder / "files", 3)


@pytest.mark.parametrize("sample", [None, 350])
def test_files_and_frames_give_the_certificate_of_one_machine(spark, few, sample):
    table, files = few
    promises = [isrr.Promise.parse(PROMISE, per="segment"), isrr.Promise.parse("ndcg@5 >= 0.3")]
    local = isrr.calibrate(table, promises, sample=sample)
    assert isrr.calibrate(files, promises, sample=sample, engine="spark") == local
    scattered = spark.createDataFrame(table).repartition(7, "item_id")
    assert isrr.calibrate(scattered, promises, sample=sample, engine="spark") == local
    assert (local.provenance.sample, local.provenance.n_table) == (sample, 600)
    assert str(isrr.check(local, scattered, "spark", sample=sample)) == str(isrr.check(local, table, sample=sample))


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(10, 2), pa.int32(), pa.string()], ids=str)
def test_ids_of_every_type_are_drawn_alike(spark, few, kind, tmp_path):
    table = with_column(judged(400), "query_id", judged(400)["query_id"].cast(pa.string()).cast(kind))
    files = write(table, tmp_path / "files", 2)
    assert isrr.calibrate(files, PROMISE, sample=200, engine="spark") == isrr.calibrate(files, PROMISE, sample=200)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (nan_deep_inside, r"column 'score', query '425': nan"),
        (lambda t: t.drop_columns("score"), r"part-001\.parquet: has other columns than .*: no 'score'"),
        (lambda t: with_column(t, "score", t["item_id"]), r"part-001\.parquet: .*'score' is string, not double"),
        (lambda t: with_column(t, "item_id", pa.array(["d1"] * len(t))), r"appears twice"),
        (lambda t: with_column(t, "query_id", pa.nulls(len(t), pa.int64())), r"column 'query_id': no value"),
    ],
    ids=["nan", "missing column", "other schema", "repeated item", "no query"],
)
def test_bad_rows_are_refused_in_one_line(spark, tmp_path, change, said):
    files = broken(judged(600), tmp_path, change)
    with pytest.raises(DataError, match=said) as refusal:
        isrr.calibrate(files, PROMISE, engine="spark")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "options", "error", "said"),
    [
        ("/nowhere/*.parquet", {}, DataError, "/nowhere/"),
        ("table", {}, DataError, "table: no such file"),
        ([1, 2], {}, DataError, "a list is not a path or a Spark table"),
        ("{files}", {"master": "local[3]"}, EngineError, r"runs on local-cluster.*, not on local\[3\]"),
        ("{files}", {"columns": isrr.Columns(score="points")}, DataError, "there is no column 'points'"),
    ],
)
def test_what_spark_cannot_read_is_refused(spark, few, data, options, error, said):
    data = few[1] if data == "{files}" else data
    with pytest.raises(error, match=said):
        isrr.calibrate(data, PROMISE, engine="spark", **options)


def test_a_cluster_that_fails_is_told_in_one_line(spark, few):
    rows = spark.read.parquet(few[1]).drop("relevance")
    rows = rows.selectExpr("*", "cast(raise_error('the disk is gone') AS double) AS relevance")
    with pytest.raises(EngineError, match=r"Spark gave up: .*the disk is gone") as failure:
        isrr.calibrate(rows, PROMISE, engine="spark")
    assert "\n" not in str(failure.value)


def test_a_metric_of_one_s_own_reads_its_column(spark, tmp_path):
    table = judged(400)
    files = write(table.append_column("margin", [2.0 + np.arange(len(table)) % 7]), tmp_path / "files", 3)
    own = isrr.Metric("margin", value=lambda queries: queries.column("margin"), columns=("value:margin",))
    promise = isrr.Promise(own, k=5, at_least=0.9, of="deterministic", bound=10.0)
    outcome = isrr.calibrate(files, promise, path=PATH, engine="spark", sample=300)
    assert outcome == isrr.calibrate(files, promise, path=PATH, sample=300)


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
    for sample in (None, 300):
        expected = isrr.calibrate(files, PROMISE, sample=sample)
        assert isrr.calibrate(files, PROMISE, engine="spark", sample=sample) == expected


def test_spark_reads_the_files_that_are_named_and_no_others(spark, tmp_path):
    table = judged(300)
    table = table.rename_columns(["query.id", "item`id", *table.column_names[2:]])
    table = table.append_column("Score", table["score"])
    columns = isrr.Columns(query="query.id", item="item`id")
    pq.write_table(table.slice(0, 80), tmp_path / "part1.parquet")
    (tmp_path / "a b%20{c,d}").mkdir()
    for file in ("part[1].parquet", "a b%20{c,d}/part.parquet", "_part.parquet", "co:lon.parquet"):
        pq.write_table(table, tmp_path / file)
    expected = isrr.calibrate(isrr.read_queries(table, columns), PROMISE, path=PATH)
    for file in ("part[1].parquet", "a b%20{c,d}/p*.parquet"):
        assert isrr.calibrate(tmp_path / file, PROMISE, path=PATH, engine="spark", columns=columns) == expected
    for file in ("_p*.parquet", "co:lon.parquet"):
        with pytest.raises(DataError, match=r"Spark reads no file with a colon in its path, or whose name begins"):
            isrr.calibrate(f"{tmp_path}/{file}", PROMISE, engine="spark", columns=columns)


def test_files_that_spark_alone_can_reach_are_one_table_too(spark, tmp_path):
    table = judged(300)
    files = f"file://{write(table, tmp_path / 'files', 2)}"
    expected = isrr.calibrate(isrr.read_queries(table), PROMISE, path=PATH, sample=200)
    assert isrr.calibrate(files, PROMISE, path=PATH, engine="spark", sample=200) == expected
    (tmp_path / "files" / "z.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"cannot be read"):
        isrr.calibrate(files, PROMISE, engine="spark")


def test_files_of_made_ids_are_told_on_spark(spark, tmp_path):
    for name in "ab":
        table = judged(300).drop_columns("query_id")
        isrr.write_queries(isrr.read_queries(table, group=[8] * 300), tmp_path / f"{name}.parquet")
    assert isrr.calibrate(tmp_path / "a.parquet", PROMISE, path=PATH, engine="spark").provenance.made_ids
    with pytest.raises(DataError, match=r"a\.parquet: its query ids were made from positions"):
        isrr.calibrate(f"{tmp_path}/*.parquet", PROMISE, engine="spark")


def test_the_settings_of_a_session_are_left_alone(spark, few):
    from isrr.spark import READING

    before = [spark.conf.get(name) for name in READING]
    isrr.calibrate(few[1], PROMISE, path=PATH, engine="spark")
    assert [spark.conf.get(name) for name in READING] == before


def command(*arguments):
    """A command that finds the session there is."""
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)


ON_SPARK = ("--engine", "spark", "--master", spark_cluster.MASTER)


def test_the_command_line_calibrates_checks_and_ranks_on_spark(spark, few, tmp_path):
    table, files = few
    pq.write_table(table, tmp_path / "all.parquet")
    measured = []
    for data, name, where in ((tmp_path / "all.parquet", "local", ()), (files, "spark", ON_SPARK)):
        ranker, ranked = tmp_path / f"{name}.json", tmp_path / f"{name}.parquet"
        assert command("calibrate", data, "-p", PROMISE, "-o", ranker, "--sample", 500, *where).exit_code == 0
        measured.append(json.loads(command("check", ranker, data, "--json", *where).stdout))
        done = command("rank", ranker, data, "-o", ranked, "--session", "s", *where)
        assert "600 queries, 3,000 positions" in done.stdout
    assert (tmp_path / "spark.json").read_bytes() == (tmp_path / "local.json").read_bytes()
    assert "of 600 judged queries" in command("show", tmp_path / "spark.json").stdout
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
