"""`unjudged="worst"` is a bound for the value of a metric, and for nothing else: other promises are refused with it."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from msgspec import structs
from typer.testing import CliRunner

from isrr import Monitor, Promise, PromiseError, calibrate, check, plan, read_queries
from isrr.cli.main import app

LEVEL, RELATIVE, FAIR = "ndcg@3 >= 0.2", "ndcg@3 >= 80% of deterministic", "normalized_disparity@3 <= 0.9"
REFUSED = "cannot be tested with `unjudged=worst`, which is a bound for values such as 'ndcg@5 >= 0.7' only: "


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of 200 queries of six items, a tenth of them without a grade."""
    rng, n = np.random.default_rng(20230), 1_200
    relevance = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]).astype(float)
    columns = {
        "query_id": np.repeat(np.arange(200), 6), "item_id": np.tile(np.arange(6), 200),
        "score": relevance + rng.normal(size=n), "relevance": np.where(rng.random(n) < 0.1, np.nan, relevance),
        "group": np.where(rng.random(n) < 0.4, "new", "known"),
    }  # fmt: skip
    file = tmp_path_factory.mktemp("unjudged") / "judged.csv"
    csv.write_csv(pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()}), file)
    return file


def stored(table, text):
    """A certificate of another promise, as if it had been made with `unjudged="worst"`."""
    outcome, promise = calibrate(read_queries(table, unjudged="worst"), LEVEL), Promise.parse(text)
    return structs.replace(
        outcome, promises=(promise,), tests=(structs.replace(outcome.tests[0], promise=promise, level=None),)
    )


@pytest.mark.parametrize(
    ("promises", "why"),
    [
        ([RELATIVE], "other grades may raise what it is compared with (the order by score)"),
        (["precision@3 >= 80% of deterministic"], "(the order by score)"),
        (["exposure(new)@3 >= 50% of merit"], "other grades may raise what it is compared with (merit)"),
        ([FAIR], "other grades may give more disparity"),
        (["group_disparity@3 <= 0.9"], "other grades may give more disparity"),
        ([LEVEL, RELATIVE], "(the order by score)"),
    ],
)
def test_promises_that_other_grades_may_break_are_refused(table, promises, why):
    with pytest.raises(PromiseError, match=re.escape(REFUSED) + ".*" + re.escape(why)) as refusal:
        calibrate(read_queries(table, unjudged="worst"), promises)
    assert "\n" not in str(refusal.value)
    assert f"'{promises[-1]}'" in str(refusal.value)


def test_such_promises_are_not_checked_planned_or_monitored_either(table):
    judged = read_queries(table, unjudged="worst")
    with pytest.raises(PromiseError, match=REFUSED):
        plan(judged, RELATIVE)
    for text in (RELATIVE, FAIR):
        with pytest.raises(PromiseError, match=REFUSED):
            check(stored(table, text), judged)
        with pytest.raises(PromiseError, match=REFUSED):
            Monitor(stored(table, text))
    by_zero = calibrate(read_queries(table, unjudged="zero"), RELATIVE)
    with pytest.raises(PromiseError, match=REFUSED):
        check(by_zero, judged)
    with pytest.raises(PromiseError, match=REFUSED):
        Monitor(by_zero).update([], judged)


def test_the_command_line_refuses_them_in_its_own_words(table):
    for command in ("calibrate", "plan"):
        found = CliRunner().invoke(app, [command, str(table), "-p", RELATIVE, "--unjudged", "worst"])
        assert found.exit_code == 2
        said = " ".join(found.output.split())
        assert "--unjudged worst, which is a bound for values" in said
        assert "expected --unjudged zero or --unjudged drop" in said


def test_values_and_what_needs_no_grades_are_promised_with_it(table):
    judged = read_queries(table, unjudged="worst")
    outcome = calibrate(judged, [LEVEL, "exposure(new)@3 >= 50% of deterministic"])
    assert not outcome.abstained
    assert check(outcome, judged).unjudged == "worst"
    assert Monitor(outcome).update([], judged) is None
    assert plan(judged, LEVEL).queries_needed is not None
