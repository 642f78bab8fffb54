"""From a data set on disk and a scorer's recipe to a pool: judged queries, scored by a scorer that never saw them.

The paper's benchmarks are large: a scorer learns on their training part, is chosen on their validation part, and their
test part is the pool. A small data set has too few test queries for that: its queries fall into five folds by a hash of
their id, each fold gets the scores of a scorer trained on three of the others and chosen on the fourth, and all folds
together are the pool. Scores are standardised by the validation queries of the scorer that made them, as in the paper;
a fifth of such a pool, the same in every experiment, then serves as validation queries.
"""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isrr.data.copies import write_queries
from isrr.data.queries import FloatArray, Queries
from isrr.data.tables import read_queries
from isrr.errors import DataError
from isrr.gains import has_relevant
from isrr.noise import stream_seed
from isrr_paper.catalog import CATALOG, JESTER, BenchmarkCountsWarning, load, located
from isrr_paper.experiments.jester import with_features
from isrr_paper.features import Featured
from isrr_paper.paths import overall_mean_and_deviation
from isrr_paper.scorers.scorer import Scorer, scorer_class

LARGE = ("yahoo", "mslr-web10k", "mslr-web30k", "istella-s")
FOLDS = 5
VALIDATION_SHARE = 0.2

Say = Callable[[str], None]
GIVEN = "given"


@dataclass(frozen=True)
class DataSet:
    """A data set on disk: a benchmark's folder, or a file of judged queries that have scores already."""

    name: str
    path: Path

    @property
    def scored(self) -> bool:
        """Whether the queries bring their scores."""
        return self.path.is_file()

    @cached_property
    def content(self) -> str:
        """32 hex digits that name what its files hold, whatever they are called."""
        files = [self.path] if self.scored else [file for part in located(self.name, self.path) for file in part]
        of_files = [_digest(file) for file in files]
        return hashlib.sha256(b"".join(of_files)).hexdigest()[:32]


def _digest(file: Path) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def data_sets(paths: Sequence[str]) -> list[DataSet]:
    """Data sets from what a user names: folders called as in the catalog, NAME=FOLDER, a folder of folders, files."""
    sets: list[DataSet] = []
    for text in paths:
        name, equals, rest = text.partition("=")
        path = Path(rest if equals else text)
        name = name if equals else path.resolve().name.lower()
        if path.is_file():
            sets.append(DataSet(name.removesuffix(path.suffix), path))
        elif name in (*CATALOG, JESTER):
            sets.append(DataSet(name, path))
        elif path.is_dir():
            inside = [DataSet(entry.name.lower(), entry) for entry in sorted(path.iterdir()) if entry.is_dir()]
            inside = [data_set for data_set in inside if data_set.name in (*CATALOG, JESTER)]
            if not inside:
                raise DataError(f"{path}: no known data set found; give its name: mq2007={path}")
            sets += inside
        else:
            raise DataError(f"{path}: does not exist")
    return sets


@dataclass(frozen=True)
class Recipe:
    """A scorer to train: its name in tables, and how it is made."""

    title: str
    kind: str
    settings: dict[str, Any]


RECIPES = {
    "lightgbm": Recipe("LightGBM", "lightgbm", {"loss": "regression"}),
    "lightgbm-lambdarank": Recipe("LightGBM lambdarank", "lightgbm", {"loss": "lambdarank"}),
    "catboost": Recipe("CatBoost", "catboost", {"loss": "QueryRMSE"}),
    "catboost-yetirank": Recipe("CatBoost YetiRank", "catboost", {"loss": "YetiRank"}),
    "lambdaloss": Recipe("NN", "net", {"loss": "lambdaloss"}),
    "plrank": Recipe("PL-Rank-3", "net", {"loss": "plrank"}),
    "policy-gradient": Recipe("Policy Gradient", "net", {"loss": "policy-gradient"}),
    "stochasticrank": Recipe("StochasticRank", "net", {"loss": "stochasticrank"}),
}
DETERMINISTIC_SCORERS = ("catboost", "lightgbm", "lambdaloss")
STOCHASTIC_SCORERS = ("plrank", "policy-gradient", "stochasticrank")


def recipe(scorer: str, data: str) -> Recipe:
    """How a scorer is made for a data set: CatBoost is trained with YetiRank on Yahoo, QueryRMSE elsewhere."""
    if scorer == GIVEN:
        return Recipe("given scores", GIVEN, {})
    if scorer not in RECIPES:
        raise ValueError(f"unknown scorer {scorer!r}; expected one of {', '.join(RECIPES)}")
    chosen = RECIPES[scorer]
    return (
        replace(RECIPES["catboost-yetirank"], title="CatBoost") if (scorer, data) == ("catboost", "yahoo") else chosen
    )


@dataclass(frozen=True, eq=False)
class Pool:
    """Judged queries with scores, all with a relevant item.

    Attributes:
        data, scorer: Names.
        title: The scorer's name in tables.
        validation: Queries that may fix paths, score map and U*.
        judged: The others, to be divided into calibration and test again and again.
    """

    data: str
    scorer: str
    title: str
    validation: Queries
    judged: Queries

    @property
    def name(self) -> str:
        """Return the stem of the names of this pool's files."""
        return f"{self.data}-{self.scorer}"


@dataclass
class Pools:
    """Pools by data set and scorer, trained once and then read from a folder; `say` is told what takes long."""

    folder: Path
    epochs: int = 100
    rounds: int = 1000
    threads: int = 0
    say: Say = print
    _read: dict[DataSet, tuple[Featured, ...]] = field(default_factory=dict)

    def settings(self, scorer: str, data: str) -> dict[str, Any]:
        """Return what a scorer is trained with, as written beside results."""
        chosen = recipe(scorer, data)
        if chosen.kind == GIVEN:
            return {}
        effort = {"epochs": self.epochs} if chosen.kind == "net" else {"rounds": self.rounds}
        return {"kind": chosen.kind, **chosen.settings, **effort, "seed": 0}

    def get(self, data_set: DataSet, scorer: str) -> Pool:
        """Return the pool of a data set under a scorer."""
        chosen = recipe(scorer, data_set.name)
        if chosen.kind == GIVEN:
            return _divided(data_set.name, scorer, chosen.title, read_queries(data_set.path))
        effort = self.epochs if chosen.kind == "net" else self.rounds
        file = self.folder / f"{data_set.name}-{scorer}-{effort}-{data_set.content[:12]}.parquet"
        large = data_set.name in LARGE
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            parts = self._parts(data_set)
            scored = (
                self._scored_once(parts, scorer, data_set.name) if large else self._by_folds(parts, scorer, data_set)
            )
            write_queries(scored, file)
        queries = read_queries(file)
        if not large:
            return _divided(data_set.name, scorer, chosen.title, queries)
        assert queries.segments is not None
        aside = queries.segments.astype(str) == "validation"
        counted = [part[has_relevant(part)] for part in (queries[aside], queries[~aside])]
        return Pool(data_set.name, scorer, chosen.title, *counted)

    def _parts(self, data_set: DataSet) -> tuple[Featured, ...]:
        if data_set not in self._read:
            with warnings.catch_warnings(record=True) as doubts:
                warnings.simplefilter("always", BenchmarkCountsWarning)
                benchmark = load(data_set.name, data_set.path)
            for doubt in doubts:
                self.say(str(doubt.message))
            self._read.clear()
            self._read[data_set] = (benchmark.train, benchmark.validation, benchmark.test)
        return self._read[data_set]

    def _scored_once(self, parts: tuple[Featured, ...], scorer: str, data: str) -> Queries:
        train, validation, test = parts
        scores = self._fit(train, validation, [validation, test], scorer, data, "")
        both = [part.without_features.with_scores(s) for part, s in zip((validation, test), scores, strict=True)]
        names = [np.full(len(part), name) for part, name in zip(both, ("validation", "test"), strict=True)]
        return replace(Queries.concatenate(both), segments=np.concatenate(names))

    def _by_folds(self, parts: tuple[Featured, ...], scorer: str, data_set: DataSet) -> Queries:
        queries = Featured.concatenate(list(parts))
        queries = with_features(queries) if data_set.name == JESTER else queries
        fold = (queries.keys ^ np.uint64(stream_seed(1, 0))) % np.uint64(FOLDS)
        scored = []
        for held_out in range(FOLDS):
            following = (held_out + 1) % FOLDS
            train, validation = queries[(fold != held_out) & (fold != following)], queries[fold == following]
            test = queries[fold == held_out]
            (scores,) = self._fit(train, validation, [test], scorer, data_set.name, f", fold {held_out + 1} of {FOLDS}")
            scored.append(test.without_features.with_scores(scores))
        return Queries.concatenate(scored)

    def _fit(
        self, train: Featured, validation: Featured, parts: list[Featured], scorer: str, data: str, where: str
    ) -> list[FloatArray]:
        self.say(f"training {recipe(scorer, data).title} on {data}{where}")
        settings = self.settings(scorer, data)
        kind = scorer_class(settings.pop("kind"))
        settings |= {"device": "cpu"} if kind.kind == "net" else {"threads": self.threads}
        trained: Scorer = kind(**settings).fit(train, validation)
        mean, deviation = overall_mean_and_deviation(validation.with_scores(trained.score(validation)))
        return [(trained.score(part) - mean) / deviation for part in parts]


def _divided(data: str, scorer: str, title: str, queries: Queries) -> Pool:
    queries = queries[has_relevant(queries)]
    aside = np.argsort(np.argsort(queries.keys)) < round(VALIDATION_SHARE * len(queries))  # those of smallest key
    return Pool(data, scorer, title, queries[aside], queries[~aside])
