"""Two rankings of the same queries: each with its own items, every judged query counted, two answers side by side."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import permutation_test
from typer.testing import CliRunner

import isrr
from isrr import Certificate, DataError, Promise, PromiseError, Queries, calibrate, check, compare, report
from isrr.calibration.compare import randomisation_pvalue
from isrr.cli.main import app
from isrr.data.production import complete, with_production

PROMISE = "ndcg@5 >= 100% of production"
QRELS = {f"q{q}": {f"d{i}": g for i, g in enumerate((3, 2, 1, 0, 0, 0))} for q in range(60)}


def run(quality, seed, queries=range(60), items=6):
    """A run whose scores follow the grades so closely."""
    rng = np.random.default_rng(seed)
    return {
        f"q{q}": {f"d{i}": float(quality * grade + rng.normal()) for i, grade in enumerate((3, 2, 1, 0, 0, 0)[:items])}
        for q in queries
    }


def read(retrieved):
    return isrr.read_queries(retrieved, qrels=QRELS)


GOOD, POOR = read(run(3.0, 1)), read(run(0.2, 2))


def test_a_better_ranking_is_proven_and_the_worse_one_proven_worse():
    better, worse = compare(GOOD, POOR, PROMISE), compare(POOR, GOOD, PROMISE)
    assert better.verdicts == {"new": "proven"}
    assert worse.verdicts == {"new": "proven worse"}
    (row,) = better.rows
    values = isrr.evaluate(GOOD, [isrr.GPLRanker.deterministic()], ["ndcg"])["ndcg"][:, 0]
    others = isrr.evaluate(POOR, [isrr.GPLRanker.deterministic()], ["ndcg"])["ndcg"][:, 0]
    assert row.mean == pytest.approx(values.mean())
    assert row.difference.value == pytest.approx((values - others).mean())
    assert (row.wins, row.ties, row.losses) == (
        (values > others).sum(),
        (values == others).sum(),
        (values < others).sum(),
    )
    assert row.wins == worse.rows[0].losses
    assert "yes (p = " in str(better)
    assert "worse (p = " in str(worse)


def test_what_is_not_proven_says_how_many_queries_it_would_take():
    few = [f"q{q}" for q in range(12)]
    close = compare(*(read({q: r[q] for q in few}) for r in (run(1.6, 3), run(0.6, 4))), PROMISE)
    assert close.verdicts == {"new": "not proven"}
    assert close.rows[0].queries_needed > 12
    assert f"about {close.rows[0].queries_needed:,} queries would do" in str(close)


def test_dropping_hard_queries_cannot_make_a_run_win():
    production = run(1.0, 5)
    hard = sorted(production, key=lambda q: np.ptp(list(production[q].values())))[:30]
    easy = {q: items for q, items in production.items() if q not in hard}
    (row,) = compare(read(easy), read(production), PROMISE).rows
    assert row.n_queries == 60
    assert row.losses == 30
    assert row.mean < row.production
    few = {q: easy[q] for q in [*easy][1:]}
    comparison = compare(read(production), read(easy), PROMISE)
    assert (comparison.rows[0].wins, comparison.rows[0].losses) == (30, 0)
    assert "production lacks 30 judged queries, which count 0 there" in str(comparison)
    outcome = isrr.calibrate(read(production), PROMISE, reference=read(easy))
    assert "production lacks 30 judged queries, which count 0 there, in favour of the new" in outcome.warnings
    with pytest.raises(DataError, match=r"production lacks 31 of 60 judged queries, .* ranking of the same queries"):
        compare(read(production), read(few), PROMISE)
    with pytest.raises(DataError, match="production lacks 31 of 60 judged queries"):
        with_production(read(production), read(few))
    whole, part = complete([read(production), read(easy)])
    values = isrr.evaluate(part, [isrr.GPLRanker.deterministic(5)], ["ndcg", "precision", "recall"])
    for name in ("ndcg", "precision", "recall"):
        assert (values[name][np.isin(part.query_ids, hard), 0] == 0).all()
    np.testing.assert_array_equal(whole.keys, part.keys)


def test_each_run_ranks_its_own_items_and_the_ideal_is_over_all_judged_ones():
    short = compare(read(run(3.0, 1, items=2)), GOOD, "ndcg@5 >= 90% of production").rows[0]
    gains = (2.0 ** np.array([3, 2, 1]) - 1) / np.log2([2, 3, 4])
    assert short.mean <= gains[:2].sum() / gains.sum()


def test_several_candidates_share_the_error():
    noise = {f"noise {i}": read(run(0.2, 10 + i)) for i in range(6)}
    alone = compare(GOOD, POOR, PROMISE)
    together = compare({"good": GOOD, **noise}, POOR, PROMISE)
    assert together.verdicts["good"] == "proven"
    assert together.rows[0].pvalue == pytest.approx(alone.rows[0].pvalue, rel=1e-3)
    assert len(together.proven) < 3
    assert "7 candidates together at confidence 0.95 (Holm)" in str(together)


def test_several_promises_must_all_hold():
    both = compare(GOOD, POOR, [PROMISE, "precision@1 >= 300% of production"])
    assert both.verdicts["new"] != "proven"
    assert [row.pvalue <= 0.05 for row in both.rows] == [True, False]


def test_the_approximate_answer_is_the_paired_randomisation_test():
    lead = np.random.default_rng(20230).normal(0.1, 0.5, 12)
    exact = permutation_test((lead,), np.mean, permutation_type="samples", alternative="greater", n_resamples=np.inf)
    assert randomisation_pvalue(lead) == pytest.approx(exact.pvalue, abs=0.02)


def test_a_stochastic_ranking_is_certified_against_production():
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, 400 * 10, p=[0.5, 0.3, 0.15, 0.05])
    queries = Queries.from_arrays(
        scores=relevance + rng.normal(size=relevance.size), relevance=relevance,
        query_ids=np.repeat(np.arange(400), 10), item_ids=np.tile(np.arange(10), 400),
        values={"now": relevance + rng.normal(scale=2.5, size=relevance.size)},
    )  # fmt: skip
    outcome = calibrate(queries, PROMISE, reference="now")
    assert isinstance(outcome, Certificate)
    assert not outcome.ranker.is_deterministic
    assert outcome.tests[0].measured > 1
    given = calibrate(queries, PROMISE, reference=queries.with_scores(queries.values["now"]))
    assert (given.ranker, given.tests) == (outcome.ranker, outcome.tests)
    assert check(outcome, queries, reference="now").promises[0].verdict == "kept"
    assert isrr.plan(queries[:100], PROMISE, reference="now").queries_needed < 400
    assert "of production" in report(outcome, queries, reference="now").html
    worse = calibrate(queries.with_scores(queries.values["now"]), PROMISE, reference=queries)
    assert worse.abstained
    with pytest.raises(DataError, match="`reference=`"):
        calibrate(queries, PROMISE)
    with pytest.raises(DataError, match="no value column 'then'"):
        calibrate(queries, PROMISE, reference="then")


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(PromiseError, match="compares with nothing; expected a share 'of production'"):
        compare(GOOD, POOR, "ndcg@5 >= 0.5")
    nameless = Queries.from_arrays(scores=GOOD.scores, relevance=GOOD.relevance, group=GOOD.n_items)
    with pytest.raises(DataError, match="ids were made from positions"):
        compare(nameless, GOOD, PROMISE)
    with pytest.raises(DataError, match="ids were made from positions"):
        with_production(GOOD, nameless)
    assert str(Promise.parse("ndcg@5 >= 102% of production")) == "ndcg@5 >= 102% of production"


@pytest.fixture
def files(tmp_path):
    for name, retrieved in (("new", run(3.0, 1)), ("old", run(0.2, 2)), ("qrels", QRELS)):
        (tmp_path / f"{name}.json").write_text(json.dumps(retrieved))
    return tmp_path


@pytest.mark.parametrize(
    ("order", "accept", "code"),
    [("new old", "proven", 0), ("old new", "proven", 4), ("new new", "proven", 3), ("new old", "approximate", 0)],
)
def test_the_command_tells_by_its_exit_code(files, order, accept, code):
    new, old = (str(files / f"{name}.json") for name in order.split())
    arguments = ["compare", new, "--with", old, "--qrels", str(files / "qrels.json"), "-p", PROMISE, "--accept", accept]
    said = {
        shape: CliRunner().invoke(app, [*arguments, "--format", shape])
        for shape in ("text", "json", "junit", "github", "markdown")
    }
    assert {done.exit_code for done in said.values()} == {code}
    document = json.loads(said["json"].stdout)
    assert document["candidates"][new]["passed"] == (code == 0)
    assert len(ElementTree.fromstring(said["junit"].stdout).findall(".//failure")) == (code > 0)
    assert said["github"].stdout.startswith("::notice" if code == 0 else "::error")
    assert "100%25 of production" in said["github"].stdout
    assert said["markdown"].stdout.startswith("| ranking |")


def test_a_table_without_grades_is_named(tmp_path):
    """Also where it lacks queries of the other."""
    judged, scored = tmp_path / "judged.parquet", tmp_path / "scored.parquet"
    isrr.write_queries(GOOD, judged)
    isrr.write_queries(replace(GOOD[:30], relevance=None), scored)
    refused = CliRunner().invoke(app, ["compare", str(judged), "--with", str(scored), "-p", PROMISE])
    assert refused.exit_code == 2
    assert f"{scored}: no relevance column" in refused.output


def test_a_run_of_production_is_named_on_the_command_line(files):
    arguments = ["calibrate", "--run", files / "new.json", "--qrels", files / "qrels.json", "-p", PROMISE]
    arguments += ["--reference-run", files / "old.json", "-o", files / "ranker.json"]
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert "of production" in done.stdout
