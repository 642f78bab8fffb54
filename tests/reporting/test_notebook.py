"""A notebook, executed: what it shows of outcomes, evaluations and checks."""

import base64
import xml.etree.ElementTree as ET

import nbformat
import polars
import pytest
from nbclient import NotebookClient

import isrr
from isrr.metrics import evaluate
from isrr.outcome.pictures import card

CELLS = [
    """import matplotlib, numpy as np, isrr
%matplotlib inline
rng = np.random.default_rng(20230)
sizes = rng.integers(8, 16, 400)
relevance = rng.choice(4, sizes.sum(), p=[.5, .25, .15, .1])
scores = relevance + rng.normal(scale=1.2, size=relevance.size)
ids = np.arange(400).repeat(sizes)
queries = isrr.Queries.from_arrays(scores=scores, relevance=relevance, query_ids=ids)
judged, new = queries[:320], queries[320:]""",
    "outcome = isrr.calibrate(judged, 'ndcg@5 >= 90% of deterministic')\noutcome",
    "outcome.plot()",
    "outcome.to_frame()",
    "isrr.evaluate(new, [outcome.ranker]).to_frame().head()",
    "isrr.check(outcome, new)",
    "isrr.report(outcome, judged)",
    "bool(isrr.calibrate(judged, 'ndcg@5 >= 0.99'))",
]


@pytest.fixture(scope="module")
def cells():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    NotebookClient(notebook, timeout=300).execute()
    return [cell.outputs for cell in notebook.cells]


def shown(outputs, kind):
    return next(output.data[kind] for output in outputs if kind in output.get("data", {}))


@pytest.mark.filterwarnings("ignore")  # of the kernel's own start
def test_a_notebook_shows_outcomes_as_pages_pictures_and_frames(cells, tmp_path):
    html = shown(cells[1], "text/html")
    for said in ("Certificate", "ndcg@5 &gt;= 90% of deterministic", "less than in the order by score", "<svg"):
        assert said in html
    svg = html[html.index("<svg") : html.index("</svg>") + 6]
    assert len(ET.fromstring(svg).findall(".//{http://www.w3.org/2000/svg}polyline")) == 2
    picture = base64.b64decode(shown(cells[2], "image/png"))
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5_000
    (tmp_path / "tradeoff.svg").write_text(svg)
    (tmp_path / "plot.png").write_bytes(picture)
    assert "fairness_gain" in shown(cells[3], "text/html")
    assert "ndcg@5" in shown(cells[4], "text/html")
    assert shown(cells[5], "text/plain").startswith("80 judged queries")
    assert shown(cells[6], "text/html").startswith("<iframe")
    assert shown(cells[7], "text/plain") == "False"


@pytest.fixture(scope="module")
def outcome(many_queries):
    return isrr.calibrate(many_queries[:200], "ndcg@5 >= 90% of deterministic")


def test_frames_are_of_what_is_installed(outcome, monkeypatch):
    frame = outcome.to_frame()
    assert type(frame).__module__.startswith("pandas")
    assert len(frame) == len(outcome.curve)
    assert bool(frame["certified"].sum() == sum(point.certified for point in outcome.curve))
    monkeypatch.setattr(evaluate, "find_spec", lambda name: name == "polars")
    assert isinstance(outcome.to_frame(), polars.DataFrame)


def test_hostile_names_are_shown_as_text(outcome):
    tradeoff = outcome.tradeoff._replace(utility_name="<script>")
    assert "<script>" not in card("<script>", [("<script>", "<script>")], tradeoff, True)


def test_a_path_that_goes_back_and_forth_is_drawn_as_points(outcome):
    there_and_back = outcome.tradeoff._replace(gain=tuple(outcome.tradeoff.gain[::2] + outcome.tradeoff.gain[1::2]))
    back_and_forth = outcome.tradeoff._replace(gain=tuple(i % 2 for i in range(len(outcome.curve))))
    assert there_and_back.is_curve
    assert "<polyline" in there_and_back.svg()
    assert "<polyline" not in back_and_forth.svg()
