"""From a log and its clicks to a ranker file, on the command line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import isrr
from isrr import load, read_queries
from isrr.clicks.simulate import Users, simulate


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
    promise = "ndcg@3 >= 90% of deterministic"
    done = isrr("start", folder / "scored.parquet", "-p", promise, "--explore", "-o", folder / "explore.json")
    assert done.returncode == 0, done.stderr
    start = load(folder / "explore.json")
    assert (start.ranker.anchor, start.ranker.floor) == (0.8, 0.9)
    start.save(folder / f"ranker-{start.id}.json")
    shown = simulate(read_queries(folder / "scored.parquet"), start.ranker, 20_000, Users(), seed=20230)
    shown.save(folder, start.id)
    return folder


def calibrated(folder, *options):
    files = ("--log", folder / "served.parquet", "--clicks", folder / "clicks.parquet", "-o", folder / "ranker.json")
    return isrr("clicks", "calibrate", *files, *options)


def test_clicks_end_in_a_ranker_file(explored):
    done = calibrated(explored, "-p", "clicks@3 >= 80% of deterministic", "--within", "1h")
    assert done.returncode == 0, done.stderr
    assert "20,000 sessions" in done.stdout
    outcome = load(explored / "ranker.json")
    assert outcome.provenance.clicks.unit == "session"
    assert outcome.ranker.temperature > 0.02
    done = isrr("report", explored / "ranker.json", "-o", explored / "page.html")
    assert done.returncode == 2
    assert "see it by: isrr show" in done.stderr
    assert not (explored / "page.html").exists()


def test_a_promise_about_clicks_is_not_monitored_without_them(explored):
    assert calibrated(explored, "-p", "clicks@3 >= 80% of deterministic", "--anchor", "0.2").returncode == 0
    done = isrr("monitor", explored / "ranker.json", "--log", explored / "served.parquet")
    assert (done.returncode, "is about clicks; expected those on the served lists as --clicks" in done.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-p", "ndcg@3 >= 80% of deterministic"), "needs judged queries"),
        (("-p", "clicks@3 >= 80% of deterministic", "--within", "soon"), "not a length of time"),
        (("-p", "clicks@3 >= 80% of deterministic", "--unit", "user"), "names sessions, not users"),
        (("-p", "clicks@3 >= 80% of deterministic", "-p", "clicks@5 >= 0.8"), "expected one promise about clicks"),
    ],
)
def test_what_cannot_be_done_with_clicks_is_said(explored, options, said):
    done = calibrated(explored, *options)
    assert done.returncode == 2
    assert said in done.stderr
