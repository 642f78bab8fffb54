"""Settings of any knob, from the values of a metric under each of them."""

import json

import numpy as np
import pytest

from isrr import DataError, PromiseError, certify

PROMISE = "ndcg@10 >= 95% of production"


@pytest.fixture(scope="module")
def values():
    """Values of production, and of five settings that lose more and more."""
    rng = np.random.default_rng(20230)
    production = rng.uniform(0.3, 0.8, 400)
    loss = np.array([0.0, 0.005, 0.012, 0.06, 0.0])
    return production, production[:, None] - loss + rng.normal(scale=0.03, size=(400, 5))


def test_settings_are_certified_up_to_the_first_that_fails(values, tmp_path):
    production, settings = values
    found = certify(settings, PROMISE, reference=production, names=["a", "b", "c", "d", "e"])
    assert found.certified == ("a", "b", "c")
    assert found.furthest == "c"
    assert found.settings[4].pvalue < 0.05  # it comes after one that fails
    assert found.settings[3].queries_needed is None
    for column, setting in enumerate(found.settings):
        assert setting.measured == pytest.approx(settings[:, column].mean() / production.mean())
        assert (setting.bound <= found.alpha) == (setting.pvalue <= 0.05)
    assert "d  " in str(found)
    assert "no number of queries would do" in str(found)
    found.save(tmp_path / "settings.json")
    saved = json.loads((tmp_path / "settings.json").read_text())
    assert [setting["certified"] for setting in saved["settings"]] == [True, True, True, False, False]


def test_an_absolute_promise_needs_no_reference(values):
    assert certify(values[1], "ndcg@10 >= 0.4").certified == ("0", "1", "2", "3", "4")
    assert certify(values[1][:8], "ndcg@10 >= 0.5").furthest is None


def test_planned_analyses_share_the_error(values):
    production, settings = values
    once, often = (
        certify(settings[:60], PROMISE, reference=production[:60], n_analyses=n).settings[2].bound for n in (1, 20)
    )
    assert often > once


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"values": np.ones(3)}, DataError, "shape"),
        ({"values": np.full((5, 2), np.nan)}, DataError, "nan"),
        ({"values": np.full((5, 2), 1.5)}, DataError, "values must lie between 0 and 1"),
        ({"reference": None}, DataError, "needs `reference=`"),
        ({"reference": np.ones(4)}, DataError, "reference"),
        ({"names": ["one"]}, DataError, "2 settings and 1 names"),
        ({"promise": "ndcg@5 >= 0.5"}, DataError, "omit `reference=`"),
        ({"promise": f"{PROMISE} per segment"}, PromiseError, "queries of each segment"),
        ({"confidence": 95}, PromiseError, "did you mean 0.95"),
        ({"n_analyses": 0}, PromiseError, "n_analyses must be"),
    ],
)
def test_what_cannot_be_certified_is_refused(change, error, said):
    arguments = {"values": np.full((5, 2), 0.5), "promise": PROMISE, "reference": np.full(5, 0.5), **change}
    with pytest.raises(error, match=said):
        certify(arguments.pop("values"), arguments.pop("promise"), **arguments)
