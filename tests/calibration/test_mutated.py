"""A saved outcome changed in one place is refused with a `CertificateError`, or read as what it says."""

import copy
import json

import numpy as np
import pytest

import isrr
from isrr import CertificateError, Promise, calibrate, load, start
from isrr.calibration.path import front_path
from isrr.outcome.certificate import _digest

MUTATIONS = 1_000  # of each outcome
SEED = 20230
ODD = (
    None, True, False, 0, 1, -1, 5, 2**70, 0.5, 1.7, -0.25, 1e308, 1e-320, "", "x", "0.5", "\x1b[2J", [], [1.0],
    [1, 2, 3, 4], [[0.0]], {}, {"low": 1}, float("nan"), float("inf"),
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(judged):
    groups = Promise.parse("exposure(ours)@3 >= 5%", per="segment")
    front = front_path(judged[:100], 3, [Promise.parse("ndcg@3 >= 80% of deterministic")], "validation", {})
    path = front.rankers[::40]  # with a score map
    return {
        "certificate": calibrate(judged, ["ndcg@3 >= 80% of deterministic", groups], path=path),
        "abstention": calibrate(judged[:60], "ndcg@3 >= 0.95", path=path),
        "start": start(judged, "ndcg@3 >= 90% of deterministic"),
    }


def places(tree, at=()):
    """The paths of all parts of a document."""
    yield at
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in parts:
        yield from places(part, (*at, key))


def mutated(document, rng, where):
    """The document with one part changed, removed, doubled, renamed or exchanged with another."""
    made = copy.deepcopy(document)
    *to, last = where[rng.integers(len(where))]
    holder = made
    for key in to:
        holder = holder[key]
    match rng.integers(8):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        case 2 if isinstance(holder, dict):
            holder[f"{last}x"] = holder.pop(last)
        case 3 if isinstance(holder[last], float | int):
            holder[last] = holder[last] * float(rng.choice([-1.0, 0.0, 2.0, 1e6])) + float(rng.choice([0.0, 1.0]))
        case 4:
            key = list(holder)[rng.integers(len(holder))] if isinstance(holder, dict) else rng.integers(len(holder))
            holder[last], holder[key] = holder[key], holder[last]
        case 5 if isinstance(holder[last], str) and holder[last]:
            at = int(rng.integers(len(holder[last])))
            holder[last] = holder[last][:at] + chr(int(rng.integers(1, 128))) + holder[last][at + 1 :]
        case _:
            holder[last] = ODD[rng.integers(len(ODD))]
    return made


@pytest.mark.parametrize("kind", ["certificate", "abstention", "start"])
def test_a_mutated_outcome_is_refused_or_read_as_what_it_says(outcomes, kind, tmp_path):
    file, rng = tmp_path / "ranker.json", np.random.default_rng(SEED)
    outcomes[kind].save(file)
    document = json.loads(file.read_text())
    where = [place for place in places(document) if place]
    ended = {"refused": 0, "read": 0}
    for _ in range(MUTATIONS):
        made = mutated(document, rng, where)
        file.write_text(json.dumps(made))
        if made == document:
            continue
        if "integrity" in made:
            with pytest.raises(CertificateError):
                load(file)
        try:
            outcome, said = load(file, trust_edited=True), ""
        except CertificateError as error:
            outcome, said = None, str(error)
        if outcome is None:
            assert said.startswith(str(file))
            assert "\n" not in said
            ended["refused"] += 1
            continue
        made.pop("integrity", None)
        assert {**outcome.document(), "integrity": None} == {**made, "integrity": None}
        assert str(outcome)
        assert isrr.GPLRanker.rank(outcome.ranker, np.arange(10.0), "q", "s").size == outcome.k
        ended["read"] += 1
    assert ended["refused"] > 0.4 * MUTATIONS
    assert ended["read"] > 0.02 * MUTATIONS


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("confidence",), 1.7, "confidence must lie in"),
        (
            ("provenance", "score_quantiles"),
            [0.0, 1.0, 2.0, 3.0],
            "array` of length >= 5 - at `..provenance.score_quantiles",
        ),
        (("provenance", "unjudged"), "none", "refuse.zero.drop.worst.*at `..provenance.unjudged"),
        (("provenance", "judged_by"), "gpt", "people.model.both.*at `..provenance.judged_by"),
        (
            ("provenance", "eligibility_quantiles"),
            [0.9, 0.5, 0.4, 0.3, 0.2],
            "eligibility_quantiles must be five rising",
        ),
        (("provenance", "n_queries"), 0, ">= 1 - at `..provenance.n_queries"),
        (("provenance", "n_repeated"), -1, ">= 0 - at `..provenance.n_repeated"),
        (("provenance", "analysis"), 0, ">= 1 - at `..provenance.analysis"),
        (("tests", 0, "pvalue"), 1.5, "<= 1.0 - at `..tests.0..pvalue"),
        (("tests", 0, "level"), -3.0, "-3"),
        (("utility", "low"), 1e6, "lies outside its interval"),
        (("ranker", "temperature"), -1.0, "temperature"),
    ],
    ids=lambda case: ".".join(map(str, case)) if isinstance(case, tuple) else None,
)
def test_what_cannot_be_is_refused_with_the_reason(outcomes, tmp_path, where, value, said):
    file = tmp_path / "ranker.json"
    outcomes["certificate"].save(file)
    document = json.loads(file.read_text())
    *to, last = where
    holder = document
    for key in to:
        holder = holder[key]
    assert holder[last] != value
    holder[last] = value
    file.write_text(json.dumps(document))
    with pytest.raises(CertificateError, match=f"damaged certificate: .*{said}"):
        load(file, trust_edited=True)


def test_a_file_of_another_version_is_not_called_damaged(outcomes, tmp_path):
    document = outcomes["certificate"].document()
    del document["integrity"]
    document["provenance"]["looks"] = 3
    (tmp_path / "ranker.json").write_text(json.dumps(document | {"integrity": _digest(document)}))
    with pytest.raises(CertificateError, match=r"written by another version of isrr; calibrate again \(.*`looks`"):
        load(tmp_path / "ranker.json")
