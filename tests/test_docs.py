"""Every example of the README and the docs runs, no link points nowhere, and the reference leaves nothing out."""

import inspect
import re
import runpy
import shutil
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from doc_pages import LANGUAGES, blocks, in_process, run
from isrr import Promise, Queries, write_queries
from isrr.data.synthetic import generate
from isrr.serve.writer import prepare
from serving import client_of

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
BACKGROUND = {"benchmarks.md", "comparison.md", "evidence.md", "house.md"}  # beside docs/paper and docs/api
FOR_USERS = [ROOT / "README.md", *(page for page in (ROOT / "docs").glob("*.md") if page.name not in BACKGROUND)]
WITH_EXAMPLES = [page for page in PAGES if any(block.language in ("console", "python") for block in blocks(page))]
OPEN_BANDIT = ROOT / "examples" / "open_bandit.py"
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - {OPEN_BANDIT})


def judged_queries(n_queries, seed, first=0):
    """Queries of 4 to 20 items from a shop with three providers and two segments."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 21, n_queries)
    n_rows = int(sizes.sum())
    relevance = rng.choice(4, n_rows, p=[0.5, 0.3, 0.15, 0.05])
    query_ids = [f"q{first + q}" for q in range(n_queries)]
    made = Queries.from_arrays(
        scores=relevance + rng.normal(scale=1.2, size=n_rows),
        relevance=relevance,
        group=sizes,
        item_ids=[f"d{i}" for i in range(n_rows)],
        item_groups=rng.choice(["Alder", "Birch", "Cedar"], n_rows, p=[0.6, 0.3, 0.1]),
    )
    return replace(made, query_ids=np.array(query_ids), segments=rng.choice(["app", "web"], n_queries), made_ids=False)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The files that the examples speak of, under the names they have there."""
    folder = tmp_path_factory.mktemp("library")
    judged = judged_queries(600, 20230)
    write_queries(judged, folder / "judged.parquet")
    in_process(["isrr", "demo", "--out", str(folder / "isrr-demo")])
    offers = runpy.run_path(str(ROOT / "examples" / "marketplace.py"))["judged_searches"]
    offers(1_500, seed=1).to_parquet(folder / "offers.parquet")
    offers(2_000, seed=2).to_parquet(folder / "new-offers.parquet")
    write_queries(judged_queries(200, 20231, 1_000), folder / "validation.parquet")
    noise = np.random.default_rng(20233).normal(scale=1.5, size=judged.n_rows)
    for name, scores in (("run", judged.scores), ("new", judged.scores), ("production", judged.relevance + noise)):
        (folder / f"{name}.txt").write_text(trec(judged, "Q0 {item} 0 {value:.6f} run", scores))
    (folder / "qrels.txt").write_text(trec(judged, "0 {item} {value:.0f}", judged.relevance))
    new = judged_queries(150, 20232, 2_000)
    write_queries(new, folder / "new-judged.parquet")
    write_queries(replace(new, relevance=None), folder / "scored.parquet")
    made = generate("small", n_queries=400)
    for name, part in (("train.txt", made.train), ("vali.txt", made.validation), ("judged.txt", made.test)):
        (folder / name).write_text(letor(*part))
    named_features(*made.train, folder / "features.parquet")
    named_features(*made.test, folder / "new-features.parquet")
    outcome = isrr.calibrate(judged, "ndcg@5 >= 95% of deterministic")
    outcome.save(folder / "ranker.json")
    prepare(folder / "served")
    client = client_of(folder / "ranker.json", log=folder / "served")
    for query in new:
        items = [{"id": str(i), "score": float(s)} for i, s in zip(query.item_ids, query.scores, strict=True)]
        client.post("/rank", {"query_id": str(query.query_ids[0]), "session": "u42", "items": items})
    return folder


def named_features(queries, features, file):
    """A table with a column for each feature, f1, f2, …"""
    columns = {"query_id": np.repeat(queries.query_ids, queries.n_items), "relevance": queries.relevance}
    columns |= {f"f{i}": column for i, column in enumerate(features.T, 1)}
    pq.write_table(pa.table(columns), file)


def trec(queries, line, values):
    """Lines of a run or of its judgments."""
    rows = zip(np.repeat(queries.query_ids, queries.n_items), queries.item_ids, values, strict=True)
    return "".join(f"{query} {line.format(item=item, value=value)}\n" for query, item, value in rows)


def letor(queries, features):
    rows = zip(np.repeat(queries.query_ids, queries.n_items), queries.relevance, features, strict=True)
    return "".join(
        f"{grade:.0f} qid:{query} " + " ".join(f"{i}:{x:.4f}" for i, x in enumerate(row, 1)) + "\n"
        for query, grade, row in rows
    )


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_every_example_of_a_page_runs(page, library, tmp_path, monkeypatch):
    shutil.copytree(library, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_language_that_is_run_or_shown(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page.name}:{block.line}: ```{block.language}"


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.name)
def test_every_promise_that_a_page_writes_can_be_read(page):
    for text in re.findall(r"[`']([a-z_]+(?:\([\w=]+\))?@\d+ [<>]= [^`'\n]+)[`']", page.read_text()):
        Promise.parse(text)


def test_the_pages_for_users_have_at_most_13_000_words():
    counts = {page.name: len(page.read_text().split()) for page in FOR_USERS}
    assert sum(counts.values()) <= 13_000, counts


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.name)
def test_every_page_for_users_starts_with_an_example_that_runs(page):
    first = blocks(page)[0]
    assert first.language in ("console", "python")
    assert first.reason is None


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_every_example_script_is_short_and_prints_something(example, tmp_path, monkeypatch, capsys):
    assert len(example.read_text().splitlines()) < 80
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    assert "Certificate " in capsys.readouterr().out


@pytest.mark.skipif(find_spec("obp") is None, reason="the sample lies in a package: pip install --no-deps obp")
def test_real_clicks_of_the_open_bandit_sample_are_read(capsys):
    runpy.run_path(str(OPEN_BANDIT), run_name="__main__")
    said = capsys.readouterr().out
    assert "10,000 impressions with 46 clicks on 34 items in 3 slots" in said
    assert float(re.search(r"off by (\S+) at most", said)[1]) < 1e-7
    assert "as logged: 0.0046" in said
    assert "certificate: refused" in said


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target and not target.startswith("#"):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"


def test_the_reference_holds_every_public_name_and_every_name_that_the_pages_import():
    names = runpy.run_path(str(ROOT / "docs" / "api" / "names.py"))["pages_of_names"]()
    shown = [page.read_text() for page in FOR_USERS]
    imported = {
        f"{module}.{name.strip()}"
        for module, listed in re.findall(r"^from (isrr\.[\w.]+) import (.+)$", "\n".join(shown), re.MULTILINE)
        for name in listed.split(",")
    }
    assert {f"isrr.{name}" for name in isrr.__all__} | imported <= set(names)


@pytest.mark.parametrize("name", isrr.__all__)
def test_every_public_name_has_a_summary_an_example_and_a_line_for_each_argument(name):
    public = getattr(isrr, name)
    summary = inspect.getdoc(public).partition("\n")[0]
    assert summary.endswith(".")
    assert len(summary) <= 80
    if name.endswith("Error"):
        return
    examples = [block.body for page in (ROOT / "docs" / "api").glob("*.md") for block in blocks(page)]
    assert any(f"isrr.{name}" in example for example in examples)
    described = "\n".join(inspect.getdoc(part) or "" for part in getattr(public, "__mro__", [public]))
    for argument in set(inspect.signature(public).parameters) - {"where"}:
        assert re.search(rf"^ +(\w+, )*{argument}(, \w+)*:", described, re.MULTILINE), argument
