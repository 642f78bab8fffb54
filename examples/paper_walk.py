# %% [markdown]
# # A walk through the paper's figures
#
# Guo, Ton, Liu and Li, *Inference-time Stochastic Ranking with Risk Control* (2023), on data made on the spot.
# Every cell is a few lines; `isrr reproduce` does the same on real data, with the paper's protocol. Open it as a
# notebook (cells begin with `# %%`) or run it as a script.

# %%
import numpy as np

import isrr
from isrr.data.synthetic import generate
from isrr.metrics.disparity import fairness_gain
from isrr_paper.further_evidence import POINTWISE
from isrr_paper.paths import overall_mean_and_deviation, paper_path, uniform_grid

made = generate("small", n_queries=1_200)
weights, *_ = np.linalg.lstsq(made.train.features, made.train.queries.relevance, rcond=None)
validation, judged = (part.queries.with_scores(part.features @ weights) for part in (made.validation, made.test))
mean, deviation = overall_mean_and_deviation(validation)


def bar(share: float, width: int = 40) -> str:
    return "█" * round(width * share) + "·" * (width - round(width * share))


# %% [markdown]
# ## Figure 1: the trade-off along the threshold
# Threshold 0 is Plackett–Luce; above every eligibility lies the deterministic order. In between utility rises and
# fairness falls; most of the 21 equally spaced thresholds hardly differ from deterministic.

# %%
plackett_luce = isrr.GPLRanker(mean=mean, deviation=deviation)
thresholds = uniform_grid(plackett_luce.eligibility(judged))
grid = [isrr.GPLRanker.deterministic()]
grid += [isrr.GPLRanker(threshold=float(t), mean=mean, deviation=deviation) for t in thresholds]
measured = isrr.evaluate(judged, grid)
utility, disparity = measured.mean("ndcg"), measured["disparity"]
gains = [fairness_gain(disparity[:, c], disparity[:, 0]) for c in range(len(grid))]
print(f"threshold   NDCG@5   disparity removed (deterministic: NDCG@5 {utility[0]:.4f})")
for c in range(1, len(grid), 2):
    print(f"{grid[c].threshold:9.3f}   {utility[c]:.4f}   {bar(max(gains[c], 0))} {gains[c]:.1%}")

# %% [markdown]
# ## Algorithm 1, as printed: Hoeffding–Bentkus, each threshold tested on its own
# The certificate says itself what is wrong with testing 21 thresholds without a correction.

# %%
target = f"ndcg@5 >= {0.9 * isrr.evaluate(validation, grid[:1]).mean('ndcg')[0]:.3f}"
print("\nthe paper's procedure:")
print(isrr.calibrate(judged, target, path=paper_path(judged, 5), evidence="hoeffding_bentkus", selection=POINTWISE))

# %% [markdown]
# ## The same promise, by betting along a path that validation queries fixed; then made relative

# %%
for promise in (target, "ndcg@5 >= 90% of deterministic"):
    print("\nisrr's:")
    print(isrr.calibrate(judged, promise, validation=validation))

# %% [markdown]
# ## Table 2 in miniature: coverage
# Calibrate on one half, look at the other, many times over.

# %%
kept, rng = [], np.random.default_rng(0)
for _ in range(10):
    shuffled = rng.permutation(len(judged))
    outcome = isrr.calibrate(judged[shuffled[:300]], "ndcg@5 >= 90% of deterministic", validation=validation)
    kept.append(isrr.check(outcome, judged[shuffled[300:]]).promises[0].value.value >= 0.9)
print(f"\nthe promise held on the other half in {sum(kept)} of {len(kept)} calibrations")
