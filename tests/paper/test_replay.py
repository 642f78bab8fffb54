"""Steps replayed on a GPU: each sees its own queries and draws its own noise."""

import numpy as np
import pytest
from scores_data import made_queries

torch = pytest.importorskip("torch", reason="the net needs torch: pip install 'isrr[paper]'")

from isrr_paper.scorers.batches import DeviceQueries  # noqa: E402
from isrr_paper.scorers.losses import GRADIENTS  # noqa: E402
from isrr_paper.scorers.replay import Replay  # noqa: E402

QUERIES = made_queries(150, seed=1)
CPU = torch.device("cpu")


def test_one_wide_bucket_holds_what_the_buckets_hold():
    held = DeviceQueries(QUERIES, 5, CPU)
    chosen = np.random.default_rng(4).permutation(len(held))[:64]
    width = int(held.lengths[chosen].max()) + 3
    (bucket,) = (batch := held.padded(torch.as_tensor(chosen), width)).buckets
    first = bucket.padded(batch.features[:, 0])
    for row, query in enumerate(chosen):
        items = slice(held.starts[query], held.starts[query] + held.lengths[query])
        inside = bucket.mask[row]
        assert inside.tolist() == [True] * held.lengths[query] + [False] * (width - held.lengths[query])
        np.testing.assert_array_equal(first[row][inside], QUERIES.features[items, 0])
        np.testing.assert_array_equal(bucket.gains[row][inside], held.gains[items])
        assert not bucket.gains[row][~inside].any()


@pytest.mark.parametrize("loss", GRADIENTS)
def test_what_stands_at_the_padding_pulls_at_nothing(loss):
    held = DeviceQueries(QUERIES, 5, CPU)
    (bucket,) = held.padded(torch.arange(20), 40).buckets
    scores = torch.randn(bucket.mask.shape, generator=torch.Generator().manual_seed(1))
    pulls = [
        GRADIENTS[loss](padded, bucket.gains, bucket.mask, 5, 50, torch.Generator().manual_seed(2))
        for padded in (scores, torch.where(bucket.mask, scores, 7.0))
    ]
    np.testing.assert_array_equal(*pulls)
    assert not pulls[0][~bucket.mask].any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_replayed_steps_see_each_query_once_and_draw_fresh_noise():
    device = torch.device("cuda")
    held = DeviceQueries(QUERIES, 5, device)
    noise = torch.Generator(device)
    count = torch.zeros((), dtype=torch.int64, device=device)
    drawn, seen = torch.zeros(100, device=device), torch.zeros(100, device=device)

    def step(batch):
        drawn.index_fill_(0, count, 0.0).index_add_(0, count[None], torch.rand(1, device=device, generator=noise))
        seen.index_add_(0, count[None], (batch.features[:, 0] * batch.buckets[0].mask.flatten()).sum()[None])
        count.add_(1)

    replay = Replay(held, step, noise)
    order = np.random.default_rng(4).permutation(len(held))
    epochs = []
    for _ in range(3):
        noise.manual_seed(11)
        count.zero_()
        seen.zero_()
        for take_step in replay.steps(8, order):
            take_step()
        epochs.append((drawn.cpu().numpy()[: int(count)].copy(), seen.cpu().numpy()[: int(count)].copy()))
    starts, stops = held.starts[order], held.starts[order] + held.lengths[order]
    sums = np.array([QUERIES.features[a:b, 0].sum() for a, b in zip(starts, stops, strict=True)])
    expected = np.add.reduceat(sums, np.arange(0, len(order), 8))
    for draws, features in epochs:
        assert np.unique(draws).size == draws.size == len(expected)
        np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(epochs[1][0], epochs[2][0])
