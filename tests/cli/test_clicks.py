"""From a log and its clicks to a ranker file, on the command line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import isrr
from isrr.cli.main import app
from isrr.clicks.simulate import Users, simulate

runner = CliRunner()


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """A folder as `isrr start --explore` and a service leave it, and the clicks on its lists."""
    folder = tmp_path_factory.mktemp("explored")
    rng = np.random.default_rng(4)
    relevance = rng.choice([0, 1, 2], 600, p=[0.6, 0.3, 0.1])
    columns = {
        "query_id": np.repeat(np.arange(60), 10), "item_id": np.arange(600), "relevance": relevance,
        "score": 0.8 * relevance + rng.normal(size=600),
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "scored.parquet")
    done = runner.invoke(
        app,
        ["start", str(folder / "scored.parquet"), "-p", "ndcg@3 >= 90% of deterministic", "--explore",
         "-o", str(folder / "explore.json")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    start = isrr.load(folder / "explore.json")
    assert (start.ranker.anchor, start.ranker.floor) == (0.8, 0.9)
    start.save(folder / f"ranker-{start.id}.json")
    queries = isrr.read_queries(folder / "scored.parquet")
    shown = simulate(queries, start.ranker, 20_000, Users(), seed=20230)
    shown.save(folder, start.id)
    return folder


def calibrated(folder, *options):
    return runner.invoke(
        app,
        ["calibrate", "--log", str(folder / "served.parquet"), "--clicks", str(folder / "clicks.parquet"),
         "-o", str(folder / "ranker.json"), *options],
    )  # fmt: skip


def test_clicks_end_in_a_ranker_file(explored):
    done = calibrated(explored, "-p", "clicks@3 >= 80% of deterministic", "--within", "1h")
    assert done.exit_code == 0, done.output
    assert "20,000 sessions" in done.output
    assert "depends on the query, the item and its place" in done.output
    outcome = isrr.load(explored / "ranker.json")
    assert outcome.provenance.clicks.unit == "session"
    assert outcome.ranker.temperature > 0.02
    done = runner.invoke(app, ["report", str(explored / "ranker.json"), "-o", str(explored / "page.html")])
    assert done.exit_code == 2
    assert "see it by: isrr show" in " ".join(done.output.split())
    assert not (explored / "page.html").exists()


def test_what_cannot_be_done_with_clicks_is_said(explored):
    for options, said in (
        (("-p", "ndcg@3 >= 80% of deterministic"), "needs judged queries"),
        (("-p", "clicks@3 >= 80% of deterministic", "--within", "soon"), "not a length of time"),
        (("-p", "clicks@3 >= 80% of deterministic", "--unit", "user"), "names sessions, not users"),
    ):
        done = calibrated(explored, *options)
        assert done.exit_code == 2
        assert said in " ".join(done.output.split())
    done = runner.invoke(app, ["calibrate", "-p", "clicks@3 >= 80% of deterministic"])
    assert done.exit_code == 2
    assert "--log and --clicks" in done.output
    done = runner.invoke(app, ["calibrate", str(explored / "scored.parquet"), "-p", "clicks@3 >= 80% of deterministic"])
    assert done.exit_code == 2
    assert "clicks are counted in a log" in done.output
