"""Gradients of the training losses, against enumeration, integration and pair-by-pair loops."""

import numpy as np
import pytest
import scores_oracles as oracles

torch = pytest.importorskip("torch", reason="the losses need torch: pip install 'isrr[paper]'")

from isrr_paper.scorers._loss_kernels import sum_gradients  # noqa: E402
from isrr_paper.scorers.losses import GRADIENTS, gradient  # noqa: E402
from isrr_paper.scorers.losses.draws import draw, place_on_device, place_on_host  # noqa: E402
from isrr_paper.scorers.losses.gradient import PL_RANK_3, PLACEMENT, POLICY  # noqa: E402

SCORES = np.array([0.3, -0.5, 1.2, 0.0, 0.7])
GAINS = np.array([1.0, 3.0, 0.0, 7.0, 1.0])
DRAWN = [loss for loss in GRADIENTS if loss != "lambdaloss"]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def padded(lists, dtype=torch.float64):
    width = max(map(len, lists))
    values = torch.zeros(len(lists), width, dtype=dtype)
    mask = torch.zeros(len(lists), width, dtype=torch.bool)
    for row, mine in enumerate(lists):
        values[row, : len(mine)] = torch.as_tensor(mine)
        mask[row, : len(mine)] = True
    return values, mask


def estimate(loss, scores, gains, k, n_draws, repeats, seed):
    """Mean and standard error of the gradient over repeats · n_draws draws."""
    tiled = torch.as_tensor(scores).repeat(repeats, 1)
    grades = torch.as_tensor(gains).repeat(repeats, 1)
    mask = torch.ones_like(tiled, dtype=torch.bool)
    each = GRADIENTS[loss](tiled, grades, mask, k, n_draws, generator(seed)).numpy()
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(repeats)


def expected_gradient(loss, scores, gains, k):
    utility = oracles.expected_dcg_normal if loss.endswith("normal") else oracles.expected_dcg
    return oracles.slope(lambda s: utility(s, gains, k), scores)


@pytest.mark.parametrize("k", [1, 3, 5, 8])
@pytest.mark.parametrize("loss", DRAWN)
def test_gradients_average_to_that_of_expected_dcg(loss, k):
    mean, error = estimate(loss, SCORES, GAINS, k, n_draws=200, repeats=1_000, seed=20230)
    assert (np.abs(mean - expected_gradient(loss, SCORES, GAINS, k)) <= 3 * error + 1e-7).all()
    assert error.max() < 0.02


@pytest.mark.parametrize("rule", [PL_RANK_3, POLICY, PLACEMENT])
@pytest.mark.parametrize("spread", [1.0, 8.0, 40.0])
def test_gradients_on_the_host_are_those_on_a_device(rule, spread):
    rng = np.random.default_rng(13)
    lists = [rng.normal(size=n) * spread for n in (1, 4, 9, 30)]
    scores, mask = padded(lists)
    gains, _ = padded([rng.integers(0, 4, size=len(mine)) for mine in lists])
    copies = [values.repeat(100, 1) for values in (scores, gains, mask)]
    host, device = (
        estimate(*copies, 5, 200, generator(seed), rule).view(100, *scores.shape).numpy()
        for seed, estimate in enumerate([gradient.on_host, gradient.on_device])
    )
    error = np.sqrt(host.var(0) / 100 + device.var(0) / 100)
    assert (np.abs(host.mean(0) - device.mean(0)) <= 4.5 * error + 1e-9).all()


def test_plrank_is_less_noisy_than_policy_gradient():
    error = {loss: estimate(loss, SCORES, GAINS, 5, 100, 500, seed=1)[1].max() for loss in DRAWN}
    assert error["plrank"] < error["placement-policy-gradient"] < error["policy-gradient"]


@pytest.mark.parametrize("k", [1, 3, 10, 40])
def test_lambdaloss_equals_the_loop_over_pairs(k):
    rng = np.random.default_rng(4)
    lists = [rng.normal(size=n) for n in (1, 2, 7, 12, 30)]
    grades = [2.0 ** rng.integers(0, 5, size=len(mine)) - 1 for mine in lists]
    scores, mask = padded(lists)
    pull = GRADIENTS["lambdaloss"](scores, padded(grades)[0], mask, k, 0, None)
    for row, (mine, gains) in enumerate(zip(lists, grades, strict=True)):
        np.testing.assert_allclose(pull[row, : len(mine)], oracles.lambdaloss(mine, gains, k), atol=1e-12)
        assert (pull[row, len(mine) :] == 0).all()


@pytest.mark.parametrize("loss", GRADIENTS)
def test_padding_moves_nothing(loss):
    rng = np.random.default_rng(5)
    lists = [rng.normal(size=n) for n in (1, 3, 6, 2)]
    gains, _ = padded([rng.integers(0, 4, size=len(mine)) for mine in lists])
    scores, mask = padded(lists)
    wide = torch.nn.functional.pad
    narrow = GRADIENTS[loss](scores, gains, mask, 5, 20_000, generator(6))
    padding = (0, 4)
    wider = GRADIENTS[loss](wide(scores, padding), wide(gains, padding), wide(mask, padding), 5, 20_000, generator(7))
    assert (narrow[~mask] == 0).all()
    assert (wider[:, 6:] == 0).all()
    np.testing.assert_allclose(wider[:, :6], narrow, atol=0.15)


def test_losses_of_either_precision_are_compiled_once():
    for precision in (torch.float32, torch.float64):
        scores, mask = padded([SCORES, SCORES[:3]], precision)
        GRADIENTS["plrank"](scores, torch.ones_like(scores), mask, 5, 2, generator(1))
    assert len(sum_gradients.signatures) == 1


@pytest.mark.parametrize("loss", GRADIENTS)
def test_the_same_seed_gives_the_same_gradient(loss):
    scores, mask = padded([SCORES, SCORES[:3]], torch.float32)
    gains, _ = padded([GAINS, GAINS[:3]], torch.float32)
    first, second = (GRADIENTS[loss](scores, gains, mask, 5, 100, generator(8)) for _ in range(2))
    assert torch.equal(first, second)


def test_drawn_positions_follow_the_enumerated_law():
    scores = np.array([0.5, -1.0, 2.0, 0.0])
    draws = draw(torch.as_tensor(scores)[None], torch.ones(1, 4, dtype=torch.bool), 3, 100_000, generator(9))
    weights = np.exp(scores)
    drawn, counts = np.unique(draws.items[0].T.numpy(), axis=0, return_counts=True)
    chances = [
        np.prod([weights[d] / (weights.sum() - weights[row[:j]].sum()) for j, d in enumerate(row)]) for row in drawn
    ]
    from scipy.stats import chisquare

    assert len(drawn) == 24
    assert chisquare(counts, np.array(chances) * counts.sum()).pvalue > 1e-3


def test_places_stay_exact_when_weights_span_hundreds_of_magnitudes():
    scores = torch.tensor([[0.0, 400.0, -200.0, 401.0, 200.0, 0.5]], dtype=torch.float64)
    draws = draw(scores, torch.ones(1, 6, dtype=torch.bool), 6, 50_000, generator(10))
    items = draws.items[0].numpy()
    assert (np.sort(items, axis=0) == np.arange(6)[:, None]).all()
    np.testing.assert_allclose((items[0] == 3).mean(), 1 / (1 + np.exp(-1)), atol=0.01)
    assert (items[2] == 4).all()
    np.testing.assert_allclose((items[3] == 5).mean(), 1 / (1 + np.exp(-0.5)), atol=0.01)
    assert (items[5] == 2).all()


def test_host_and_device_place_the_same_items():
    rng = np.random.default_rng(11)
    weights = np.sort(np.exp(rng.normal(size=(40, 25)) * rng.choice([0.1, 1, 10, 60], size=(40, 1))), axis=1)
    weights[::2, :7] = 0.0
    upto = torch.as_tensor(weights).cumsum(1)
    uniforms = torch.rand(40, 6, 500, dtype=torch.float64, generator=generator(12))
    (host, host_mass), (device, device_mass) = place_on_host(upto, uniforms), place_on_device(upto, uniforms)
    assert torch.equal(host, device)
    np.testing.assert_allclose(host_mass, device_mass, rtol=1e-12)
