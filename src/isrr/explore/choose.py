"""A promise that was chosen after looking, as a certificate: the band holds for all of them at once."""

from dataclasses import replace

import numpy as np

from isrr.calibration.quality import measured_quality
from isrr.certificate import Abstention, Certificate
from isrr.errors import PromiseError
from isrr.explore.band import LEAST_TO_SHAPE
from isrr.explore.explorer import band_shape, banded, rule_of
from isrr.explore.retrace import Retraced
from isrr.findings import Test
from isrr.promises.promise import Promise, promises


def choose(found: Retraced, promise: str | Promise) -> Certificate:
    """What the band certifies for the declared promise with another target."""
    outcome = found.outcome
    if isinstance(outcome, Abstention) or len(outcome.promises) > 1:
        what = "an abstention" if isinstance(outcome, Abstention) else "a certificate of several promises"
        raise PromiseError(f"this is {what}; expected the certificate of one promise")
    (asked,), declared = promises(promise), outcome.promises[0]
    if str(asked) != str(replace(declared, per=None).at(asked.target)):
        raise PromiseError(f"'{asked}' is not the declared promise with another target: '{declared}'")
    chosen, cells = declared.at(asked.target), found.of(declared)
    shape = band_shape(found, cells[0])
    if shape is None:
        raise PromiseError(
            f"no band holds for all promises at once: expected {LEAST_TO_SHAPE} or more judged queries that were not "
            "tested on (`validation=`)"
        )
    delta = (1 - outcome.confidence) / outcome.provenance.planned_looks
    band = np.array(banded(cells, delta, None, shape))
    holds = cells[0].exempt | ((band >= chosen.target) if chosen.at_least is not None else (band <= chosen.target))
    column = replace(rule_of(found), one_by_one=True).chosen(holds)
    if column is None:
        tested = band[~cells[0].exempt]
        best = chosen.shown(float(tested.max() if chosen.at_least is not None else tested.min()))
        raise PromiseError(f"'{asked}' is not certified by the band, which reaches {best}")
    point = outcome.curve[column]
    tests = tuple(
        Test(
            chosen, cell.segment, cell.n_queries, cell.evidence, float(cell.measured()[column]), float(band[column]),
            cell.loss(column, chosen.target)[0], None, delta,
        )
        for cell in cells
    )  # fmt: skip
    return replace(
        outcome,
        promises=(chosen,),
        ranker=point.ranker,
        tests=tests,
        curve=tuple(replace(p, certified=bool(held)) for p, held in zip(outcome.curve, holds, strict=True)),
        provenance=replace(outcome.provenance, selection="band"),
        utility=point.utility,
        disparity=point.disparity,
        fairness_gain=point.fairness_gain,
        quality=measured_quality(found.sample, point.ranker, (chosen,), outcome.provenance.seed),
    )
