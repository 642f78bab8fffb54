"""The net: checkpoints, devices, batches."""

import json
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from scores_data import made_queries

torch = pytest.importorskip("torch", reason="the net needs torch: pip install 'isrr[paper]'")

from isrr.errors import DataError  # noqa: E402
from isrr.gains import gain_of, ideal_dcg  # noqa: E402
from isrr_paper.features import Featured  # noqa: E402
from isrr_paper.paper_errors import ScorerError  # noqa: E402
from isrr_paper.scorers import scorer as scorer_module  # noqa: E402
from isrr_paper.scorers.batches import DeviceQueries  # noqa: E402
from isrr_paper.scorers.net import NetScorer, mlp, validation_ndcg  # noqa: E402
from isrr_paper.scorers.scorer import TrainingInterruptedError, interruptible, load_scorer, mean_ndcg  # noqa: E402

TRAIN, VALIDATION = made_queries(150, seed=1), made_queries(50, seed=2, first_id=1_000)
CPU = torch.device("cpu")


def test_every_epoch_leaves_a_checkpoint_and_the_best_is_used(tmp_path):
    from safetensors.torch import load_file

    scorer = NetScorer(epochs=6, device="cpu").fit(TRAIN, VALIDATION, folder=tmp_path)
    history = json.loads((tmp_path / "manifest.json").read_text())["history"]
    values = [point["validation_ndcg"] for point in history["checkpoints"]]
    assert [point["epoch"] for point in history["checkpoints"]] == [1, 2, 3, 4, 5, 6]
    assert history["best_epoch"] == 1 + int(np.argmax(values))
    assert scorer.validation_ndcg == pytest.approx(max(values), abs=1e-6)
    layers = {f"{layer}.{part}" for layer in (0, 2, 4) for part in ("weight", "bias")}
    for point in history["checkpoints"]:
        assert set(load_file(tmp_path / point["file"])) == layers


def test_training_anew_replaces_the_checkpoints_of_before(tmp_path):
    NetScorer(epochs=4, device="cpu").fit(TRAIN, VALIDATION, folder=tmp_path)
    NetScorer(epochs=2, device="cpu", seed=1).fit(TRAIN, VALIDATION, folder=tmp_path)
    assert len(list(tmp_path.glob("epoch-*"))) == 2
    assert load_scorer(tmp_path).seed == 1


def test_how_many_threads_torch_has_changes_no_bit():
    rng = np.random.default_rng(20230)
    features = rng.normal(size=(256 * 150, 45)).astype(np.float32)  # a batch whose sums torch would share among cores
    relevance = (features[:, 0] + rng.normal(size=len(features)) > 1).astype(float)
    long = Featured.from_arrays(features=features, relevance=relevance, group=np.full(256, 150))
    narrow = Featured.from_arrays(features=features[:1_500], relevance=relevance[:1_500], group=np.full(10, 150))
    before, scores = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            scores.append(NetScorer(epochs=3, device="cpu").fit(long, narrow).score(narrow))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*scores)


@contextmanager
def pressed_at_once():
    with interruptible() as interrupted:
        signal.raise_signal(signal.SIGINT)
        yield interrupted


def test_ctrl_c_within_the_first_epoch_leaves_an_untrained_net(tmp_path, monkeypatch):
    trained = NetScorer(epochs=1, device="cpu").fit(TRAIN, VALIDATION)
    monkeypatch.setattr(scorer_module, "interruptible", pressed_at_once)
    for scorer in (NetScorer(epochs=1, device="cpu"), trained):
        with pytest.raises(TrainingInterruptedError, match="within the first epoch; nothing is kept"):
            scorer.fit(TRAIN, VALIDATION)
        assert scorer.n_features is None
        assert np.isnan(scorer.validation_ndcg)
        for use in (lambda: scorer.score(VALIDATION), lambda: scorer.save(tmp_path)):  # noqa: B023
            with pytest.raises(ScorerError, match="this net scorer is not trained yet"):
                use()
    assert not list(tmp_path.iterdir())


def test_sizes_and_optimizer_are_options(tmp_path):
    scorer = NetScorer(epochs=2, hidden=(8,), optimizer="sgd", learning_rate=0.5, device="cpu")
    scorer.fit(TRAIN, VALIDATION, folder=tmp_path)
    loaded = load_scorer(tmp_path)
    assert loaded.hidden == (8,)
    np.testing.assert_array_equal(loaded.score(VALIDATION), scorer.score(VALIDATION))


def test_a_missing_feature_or_device_is_refused():
    bad = made_queries(5, seed=3)
    bad.features[7, 2] = np.nan
    for normalize in ("none", "query"):
        with pytest.raises(DataError, match=f"row {bad.rows[7] + 1}: feature 2 is nan, missing or infinite"):
            NetScorer(epochs=1, normalize=normalize, device="cpu").fit(bad, VALIDATION)
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'cuda', got 'tpu'"):
        NetScorer(device="tpu").fit(TRAIN, VALIDATION)


@pytest.mark.parametrize("loss", NetScorer.losses)
def test_a_net_gone_astray_is_told_and_not_kept(loss):
    huge = Featured.from_arrays(features=TRAIN.features * 1e9, relevance=TRAIN.relevance, group=TRAIN.n_items)
    recipe = {"hidden": (), "optimizer": "sgd", "learning_rate": 1e38, "n_draws": 5, "normalize": "none"}
    astray = NetScorer(loss=loss, epochs=5, device="cpu", **recipe)
    with pytest.raises(ScorerError, match="training diverged"):
        astray.fit(huge, VALIDATION)


def test_ndcg_on_the_device_is_that_of_the_host():
    net = mlp(6, (4,), seed=3)
    held = DeviceQueries(VALIDATION, 5, CPU)
    with torch.no_grad():
        scores = net(torch.as_tensor(VALIDATION.features)).squeeze(1).double().numpy()
    expected = mean_ndcg(VALIDATION, VALIDATION.in_caller_order(scores))
    assert validation_ndcg(net, held) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("batch_queries", [1, 7, 64, 1_000])
def test_batches_hold_every_item_once_beside_its_gain(batch_queries):
    held = DeviceQueries(TRAIN, 5, CPU)
    order = np.random.default_rng(4).permutation(len(held))
    ideal = ideal_dcg(TRAIN)
    expected = gain_of(TRAIN.relevance) / np.repeat(np.where(ideal > 0, ideal, 1), TRAIN.n_items)
    relevant = np.repeat(ideal > 0, TRAIN.n_items)
    seen = []
    for batch in held.batches(batch_queries, order):
        assert batch.n_queries <= batch_queries
        for bucket in batch.buckets:
            rows = batch.features[bucket.rows]
            first = bucket.padded(batch.features[:, 0])
            np.testing.assert_array_equal(bucket.unpadded(first), rows[:, 0])
            assert (first[~bucket.mask] == 0).all()
            seen.append(torch.stack([rows[:, 0], bucket.unpadded(bucket.gains)], dim=1).numpy())
    seen = np.concatenate(seen)
    wanted = np.stack([TRAIN.features[relevant, 0], expected[relevant].astype(np.float32)], axis=1)
    np.testing.assert_allclose(seen[np.lexsort(seen.T)], wanted[np.lexsort(wanted.T)], rtol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("loss", NetScorer.losses)
def test_a_gpu_trains_what_the_host_trains(loss):
    host, gpu, again = (
        NetScorer(loss=loss, epochs=10, device=device).fit(TRAIN, VALIDATION) for device in ("cpu", "cuda", "cuda")
    )
    assert gpu.validation_ndcg == pytest.approx(host.validation_ndcg, abs=0.05)
    np.testing.assert_array_equal(gpu.score(VALIDATION), again.score(VALIDATION))
