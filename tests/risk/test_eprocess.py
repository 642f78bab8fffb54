"""The watch's evidence is the gamblers' wealth it stands for."""

import numpy as np
import pytest

import risk_oracles as oracles
from isrr.risk.eprocess import EProcess


def test_evidence_is_the_wealth_of_all_gamblers_after_every_loss():
    losses = np.random.default_rng(20230).beta(2, 3, (25, 3))
    process, alone = EProcess.start(0.3, 3), EProcess.start(0.3)
    expected = np.array([oracles.evidence_after(column.tolist(), 0.3) for column in losses.T]).T
    for row, wanted in zip(losses, expected, strict=True):
        process, alone = process.after(row), alone.after(row[0])
        np.testing.assert_allclose(process.evidence, wanted, rtol=1e-12)
        assert alone.evidence == process.evidence[0]


@pytest.mark.parametrize("loss", [-0.1, 1.1, np.nan])
def test_what_is_no_loss_is_refused(loss):
    with pytest.raises(ValueError, match=r"expected losses in \[0, 1\]"):
        EProcess.start(0.3).after(loss)
