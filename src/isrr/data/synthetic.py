"""Made-up queries with the shape of a named benchmark: list lengths, grades, features to score by, split sizes.

Each item has a latent quality, seen through noisy features; its grade is the quality (with a query's own offset and
noise) cut so that the grades have the benchmark's proportions. A scorer can learn the relation, not perfectly.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries


@dataclass(frozen=True)
class Shape:
    """What a benchmark looks like.

    Attributes:
        n_queries: Queries for training, validation and test, as in the paper's Table 1.
        mean_items: Mean list length; lengths are gamma distributed.
        spread: Deviation of the list length divided by its mean.
        n_features: Features, of which about a third carry signal.
        grades: Share of the grades 0 … 4.
        noise: Deviation of what no feature shows, relative to the latent quality.
    """

    n_queries: tuple[int, int, int]
    mean_items: float
    spread: float
    n_features: int
    grades: tuple[float, ...]
    noise: float


SHAPES = {
    "yahoo": Shape((19_944, 6_983, 2_994), 23.7, 0.7, 700, (0.21, 0.36, 0.28, 0.11, 0.04), 0.75),
    "mslr": Shape((18_919, 6_306, 12_581), 119.8, 0.55, 136, (0.515, 0.325, 0.134, 0.018, 0.008), 1.1),
    "istella": Shape((19_245, 7_211, 6_528), 105.6, 0.4, 220, (0.886, 0.04, 0.035, 0.025, 0.014), 0.45),
    "small": Shape((600, 200, 800), 24.0, 0.6, 20, (0.45, 0.25, 0.17, 0.09, 0.04), 1.0),
}


class Part(NamedTuple):
    """Judged queries without scores, and the features that a model can score their items by, (n_rows, n_features)."""

    queries: Queries
    features: NDArray[np.float32]


class Parts(NamedTuple):
    """Training, validation and test queries."""

    train: Part
    validation: Part
    test: Part


def generate(shape: str = "small", n_queries: int | None = None, seed: int = 0) -> Parts:
    """Generate queries with features and grades 0–4, split for training, validation and test.

    Args:
        shape: "yahoo", "mslr", "istella" or "small".
        n_queries: Queries in all, in the benchmark's proportions; by default the benchmark's number.
        seed: Random seed; the same seed gives the same queries.

    Example:
        >>> generate("small", n_queries=16).test.queries
        Queries(8 queries, 194 items; relevance)
    """
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(SHAPES)}; got {shape!r}")
    form = SHAPES[shape]
    sizes = np.array(form.n_queries)
    if n_queries is not None:
        if n_queries < 3:
            raise ValueError(f"n_queries must be ≥ 3, one for each part; got {n_queries}")
        sizes = np.maximum(sizes * n_queries // sizes.sum(), 1)
        sizes[2] += n_queries - sizes.sum()
    rng = np.random.default_rng([seed, *shape.encode()])
    law = _Law.draw(form, rng)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    parts = [law.queries(rng, int(start), int(size)) for start, size in zip(starts[:-1], sizes, strict=True)]
    return Parts(*parts)


@dataclass(frozen=True, eq=False)
class _Law:
    """How features and grades follow from latent quality; drawn once per data set."""

    shape: Shape
    loadings: FloatArray
    feature_noise: FloatArray
    cuts: FloatArray

    @classmethod
    def draw(cls, shape: Shape, rng: np.random.Generator) -> "_Law":
        n = shape.n_features
        loadings = rng.normal(size=n) * (rng.random(n) < 1 / 3)
        feature_noise = rng.uniform(0.5, 2.0, n) * np.sqrt(n / 9)
        cuts = scipy.special.ndtri(np.cumsum(shape.grades)[:-1])  # what is cut into grades is standard normal
        return cls(shape, loadings, feature_noise, cuts)

    def queries(self, rng: np.random.Generator, start: int, size: int) -> Part:
        form = self.shape
        lengths = np.maximum(rng.gamma(form.spread**-2, form.mean_items * form.spread**2, size).round(), 1)
        lengths = lengths.astype(np.int64)
        n_rows = int(lengths.sum())
        offset = np.repeat(rng.normal(scale=0.5, size=size), lengths)  # some queries are easy, some have no answer
        quality = rng.normal(size=n_rows)
        hidden = rng.normal(scale=form.noise, size=n_rows)
        grade = np.searchsorted(self.cuts, (quality + hidden + offset) / np.sqrt(1.25 + form.noise**2))
        features: NDArray[np.float32] = rng.standard_normal((n_rows, form.n_features), np.float32)
        features *= self.feature_noise.astype(np.float32)
        features += quality[:, None].astype(np.float32) * self.loadings.astype(np.float32)
        query_ids = np.repeat(np.arange(start, start + size), lengths)
        return Part(Queries.from_arrays(relevance=grade, query_ids=query_ids), features)
