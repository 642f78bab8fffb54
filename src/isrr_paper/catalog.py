"""Ranking benchmarks: how they lie on disk, how large they are said to be, where they come from.

Counts are the publishers', of the first fold, and add up to their totals. The paper's Table 1 differs:

    Yahoo        its validation and test columns are exchanged (test has 6,983 queries, validation 2,994)
    MSLR-WEB30K  the items of validation (747,218) and test (753,611) are exchanged, and test has 6,306
                 queries, not 12,581
    Istella-S    the items of validation (684,076) and test (681,250) are exchanged, and test has 6,562
                 queries, not 6,528

Yahoo counts 700 features over its two sets; those of set 1 end at number 699.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from isrr.data.columns import Columns
from isrr.data.tables import read_queries
from isrr.errors import DataError
from isrr_paper.features import Featured
from isrr_paper.letor import read_letor
from isrr_paper.split import Splits, split

Files = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
PARTS = ("train", "validation", "test")
WHOLE: Files = (("train.txt",), ("vali.txt",), ("test.txt",))


class BenchmarkCountsWarning(UserWarning):
    """Files of a benchmark hold other numbers of queries, items or features than published."""


@dataclass(frozen=True)
class Published:
    """Published facts about a benchmark.

    Attributes:
        queries: Number of queries in train, validation and test; of the first fold where there are several.
        items: Number of items, likewise.
        features: The largest feature number.
        n_folds: Number of folds.
        folders: Folders, below the one the user names, that may hold the files.
        files: File names of the three parts, where they are not train, vali and test.
        source: Where to get it.
    """

    queries: tuple[int, int, int]
    items: tuple[int, int, int]
    features: int
    n_folds: int
    folders: tuple[str, ...]
    source: str
    files: Files = WHOLE


_LETOR = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval"
_MSLR = "https://www.microsoft.com/en-us/research/project/mslr"
CATALOG = {
    "yahoo": Published(
        (19_944, 2_994, 6_983), (473_134, 71_083, 165_660), 699, 1, (".", "ltrc_yahoo"),
        "https://webscope.sandbox.yahoo.com, C14B (Learning to Rank Challenge), after accepting its terms",
        (("set1.train.txt",), ("set1.valid.txt",), ("set1.test.txt",)),
    ),
    "mslr-web10k": Published(
        (6_000, 2_000, 2_000), (723_412, 235_259, 241_521), 136, 5, (".", "MSLR-WEB10K"),
        f"{_MSLR}, after accepting its terms",
    ),
    "mslr-web30k": Published(
        (18_919, 6_306, 6_306), (2_270_296, 747_218, 753_611), 136, 5, (".", "MSLR-WEB30K"),
        f"{_MSLR}, after accepting its terms",
    ),
    "istella-s": Published(
        (19_245, 7_211, 6_562), (2_043_304, 684_076, 681_250), 220, 1, (".", "sample"),
        "http://quickrank.isti.cnr.it/istella-dataset, Istella-S, after accepting its terms",
    ),
    "mq2007": Published(
        (1_017, 339, 336), (42_158, 13_813, 13_652), 46, 5, (".", "MQ2007"),
        f"{_LETOR}, LETOR 4.0 MQ2007 (supervised ranking)",
    ),
    "mq2008": Published(
        (471, 157, 156), (9_630, 2_707, 2_874), 46, 5, (".", "MQ2008"),
        f"{_LETOR}, LETOR 4.0 MQ2008 (supervised ranking)",
    ),
    "ohsumed": Published(
        (64, 21, 21), (9_029, 3_573, 3_538), 25, 5, (".", "OHSUMED"), f"{_LETOR}, LETOR 2.0 OHSUMED"
    ),
    "nfcorpus": Published(
        (2_594, 325, 325), (237_627, 30_043, 30_437), 41, 1, (".",),
        "https://www.cl.uni-heidelberg.de/statnlpgroup/nfcorpus; the 41 features are our own",
    ),
}  # fmt: skip
JESTER = "jester5k"
_JESTER_USERS, _JESTER_RATINGS = 5_000, 363_209


def load(name: str, path: str | os.PathLike[str], fold: int = 1) -> Splits:
    """Read a benchmark from its folder, divided as its publishers do.

    Folds lie in Fold1 … Fold5, each with train.txt, vali.txt and test.txt, or as the parts S1.txt … S5.txt
    that make them; any file may be gzipped. Other counts than published bring a `BenchmarkCountsWarning`.

    Args:
        name: One of the names in `CATALOG`, or "jester5k", whose users are queries and whose jokes are items.
        path: The folder.
        fold: Which fold, from 1.
    """
    files = located(name, path, fold)
    if name == JESTER:
        ((ratings,),) = files
        return _jester(ratings)
    known = CATALOG[name]
    parts = [_part(part) for part in files]
    width = max(_width(part) for part in parts)
    _compare(name, known, fold, parts, width)
    return Splits(*(_widened(part, width) for part in parts))


def located(name: str, path: str | os.PathLike[str], fold: int = 1) -> list[list[Path]]:
    """Return the files that `load` reads: train, validation and test, or Jester's one."""
    if name not in (*CATALOG, JESTER):
        raise ValueError(f"unknown benchmark {name!r}; expected one of {', '.join(CATALOG)}, {JESTER}")
    n_folds = 1 if name == JESTER else CATALOG[name].n_folds
    if not 1 <= fold <= n_folds:
        raise ValueError(f"fold {fold} of {name}: its folds are 1 to {n_folds}")
    root = Path(path)
    if name != JESTER:
        return _located(name, CATALOG[name], root, fold)
    if not (ratings := root / "ratings.csv").is_file():
        raise DataError(
            f"{root}: {JESTER} is not here; expected ratings.csv (user, joke, rating). "
            "It comes from the R package recommenderlab, data set Jester5k"
        )
    return [[ratings]]


def _located(name: str, known: Published, root: Path, fold: int) -> list[list[Path]]:
    layouts = [known.files]
    if known.n_folds > 1:
        train, vali, test = ((f"Fold{fold}/{file}",) for (file,) in known.files)
        parts = [f"S{(fold - 1 + step) % 5 + 1}.txt" for step in range(5)]
        layouts = [(train, vali, test), (tuple(parts[:3]), (parts[3],), (parts[4],))]
    for folder in known.folders:
        for layout in layouts:
            files_by_part = [[_present(root / folder / file) for file in files] for files in layout]
            whole = [[file for file in files if file is not None] for files in files_by_part]
            if [len(files) for files in whole] == [len(files) for files in layout]:
                return whole
    needed = " or ".join(", ".join(file for files in layout for file in files) for layout in layouts)
    raise DataError(f"{root}: {name} is not here; expected {needed}. It comes from {known.source}")


def _present(file: Path) -> Path | None:
    packed = file.with_name(f"{file.name}.gz")
    return file if file.is_file() else packed if packed.is_file() else None


def _part(files: Sequence[Path]) -> Featured:
    pieces = [read_letor(file) for file in files]
    width = max(_width(piece) for piece in pieces)
    return pieces[0] if len(pieces) == 1 else Featured.concatenate([_widened(piece, width) for piece in pieces])


def _width(queries: Featured) -> int:
    return 0 if queries.features is None else queries.features.shape[1]


def _widened(queries: Featured, width: int) -> Featured:
    """Pad the features with columns of zeros that no line of the file names."""
    missing = width - _width(queries)
    if missing == 0:
        return queries
    zeros = np.zeros((queries.n_rows, missing), np.float32)
    return replace(queries, features=zeros if queries.features is None else np.hstack([queries.features, zeros]))


def _compare(name: str, known: Published, fold: int, parts: Sequence[Featured], width: int) -> None:
    """Warn where counts are not the published ones; folds beyond the first are compared by their totals."""
    queries, items = [len(part) for part in parts], [part.n_rows for part in parts]
    differences = []
    for what, counts, published in (("queries", queries, known.queries), ("items", items, known.items)):
        if fold == 1:
            differences += [
                f"{part} has {mine:,} {what}, published are {theirs:,}"
                for part, mine, theirs in zip(PARTS, counts, published, strict=True)
                if mine != theirs
            ]
        elif sum(counts) != sum(published):
            differences.append(f"there are {sum(counts):,} {what}, published are {sum(published):,}")
    if width != known.features:
        differences.append(f"features end at number {width}, published is {known.features}")
    if differences:
        warnings.warn(f"{name}: {'; '.join(differences)}", BenchmarkCountsWarning, stacklevel=3)


def _jester(file: Path) -> Splits:
    """Users as queries and jokes as items; ratings from −10 to 10 become relevance from 0 to 4."""
    users = read_queries(file, Columns(query="user", item="joke", score="rating"))
    if (len(users), users.n_rows) != (_JESTER_USERS, _JESTER_RATINGS):
        counted = f"{len(users):,} users and {users.n_rows:,} ratings"
        published = f"{_JESTER_USERS:,} and {_JESTER_RATINGS:,}"
        warnings.warn(f"{JESTER}: {counted}, published are {published}", BenchmarkCountsWarning, stacklevel=3)
    judged = replace(users, scores=None, relevance=(users.need_scores() + 10) / 5)
    return Splits(*split(Featured.of(judged, np.zeros((judged.n_rows, 0)))))
