"""`isrr-paper reproduce`: the paper's tables and figures, one command per result.

Every result is kept as JSON in the output folder, one file per data set and scorer: a second run reads what is there,
unless the data or the settings are others.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import isrr
from isrr.cli.console import err, out, warn
from isrr.cli.inputs import check_folder
from isrr.cli.options import offered

if TYPE_CHECKING:
    from isrr_paper.experiments.pools import DataSet, Pools
    from isrr_paper.experiments.result import Job

RESULTS, ALL = ("tradeoff", "coverage", "decay", "stochastic", "rcscore", "runtime"), "all"


def reproduce(
    result: Annotated[
        str,
        typer.Argument(
            help=f"What to reproduce: {', '.join(RESULTS)}, or {ALL}.", autocompletion=offered((*RESULTS, ALL))
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A data set: its folder (named as in `isrr-paper benchmarks`), NAME=FOLDER, a folder of such folders, "
            "or a file of judged queries with scores. Repeat for several. Not needed for runtime."
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("reproduction"),
    scorer: Annotated[
        list[str] | None, typer.Option(help="Scorers to use instead of the default ones. Repeat for several.")
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits, as in the paper.")] = 50,
    many: Annotated[int, typer.Option(help="Number of splits for the long-run columns.")] = 1_000,
    bootstrap: Annotated[int, typer.Option(help="Number of bootstrap repetitions.")] = 1_000,
    epochs: Annotated[int, typer.Option(help="Training epochs of the neural nets.")] = 100,
    threads: Annotated[int, typer.Option(help="Threads for boosted trees; 0 means all cores.")] = 0,
    sample: Annotated[int, typer.Option(help="For runtime: number of training queries to time.")] = 2_000,
) -> None:
    """Reproduce the tables and figures of the paper, next to the published ones.

    The paper: R. Guo, J.-F. Ton, Y. Liu and H. Li, Inference-time Stochastic Ranking with Risk Control, 2023.
    """
    from isrr_paper.experiments.pools import Pools, data_sets

    if result not in (*RESULTS, ALL):
        raise ValueError(f"unknown result {result!r}; expected one of {', '.join((*RESULTS, ALL))}")
    wanted = list(RESULTS) if result == ALL else [result]
    sets = data_sets(data or [])
    if not sets and wanted != ["runtime"]:
        raise ValueError("no data set; expected --data FOLDER (`isrr-paper benchmarks` lists known ones)")
    check_folder(folder)
    pools = Pools(folder / "pools", epochs=epochs, threads=threads, say=lambda text: err.print(text))
    sizes = {"n_splits": splits, "many_splits": many, "n_bootstrap": bootstrap}
    jobs = {name: _jobs(name, pools, sets, scorer or [], sizes, sample, folder / "results") for name in wanted}
    _work(jobs, folder)


def _jobs(
    result: str,
    pools: "Pools",
    sets: Sequence["DataSet"],
    scorers: Sequence[str],
    sizes: dict[str, int],
    sample: int,
    results: Path,
) -> list["Job"]:
    """Return what has to be measured for a result, as one job per piece."""
    from importlib import import_module

    from isrr_paper.experiments import runtime
    from isrr_paper.experiments.pools import DETERMINISTIC_SCORERS, GIVEN, STOCHASTIC_SCORERS
    from isrr_paper.experiments.result import on_pool

    if result == "runtime":
        settings = {"epochs": 5, "n_train": sample}
        return [runtime.on_shape(shape, settings, results) for shape in runtime.SHAPE_NAMES]
    experiment = import_module(f"isrr_paper.experiments.{result}")
    needed = ("n_splits", "many_splits", "n_bootstrap") if result in ("coverage", "stochastic") else ("n_splits",)
    settings = {name: sizes[name] for name in needed}
    own = STOCHASTIC_SCORERS if result == "stochastic" else DETERMINISTIC_SCORERS
    return [
        on_pool(result, experiment.measure, pools, data_set, scorer, settings, results)
        for data_set in sets
        for scorer in ((GIVEN,) if data_set.scored else scorers or own)
    ]


def _work(jobs: dict[str, list["Job"]], folder: Path) -> None:
    """Do what is not remembered, saying how much is left, and draw each result when its pieces are there."""
    from statistics import fmean

    from isrr_paper.experiments.result import draw

    left = {result: sum(job.remembered() is None for job in pieces) for result, pieces in jobs.items()}
    n_jobs, taken = sum(left.values()), defaultdict[str, list[float]](list)
    for result, pieces in jobs.items():
        records = []
        for job in pieces:
            record = job.remembered()
            if record is None:
                done = [seconds for of_result in taken.values() for seconds in of_result]
                place = f"{len(done) + 1} of {n_jobs}"
                if done:
                    ahead = sum(n * fmean(taken[name] or done) for name, n in left.items())
                    place += f", about {ahead / 60:.0f} min left"
                err.print(f"{place}: {job.name}", soft_wrap=True)
                record = job.measure()
                taken[result].append(record["seconds"])
                left[result] -= 1
            elif record["isrr"] != isrr.__version__:
                warn(f"{job.file} was measured by isrr {record['isrr']}; delete it to measure again")
            records.append(record)
        for file in draw(result, records, folder):
            out.print(f"written: {file}", soft_wrap=True)
