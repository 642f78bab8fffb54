"""`isrr reproduce`: the paper's tables and figures, one command a result.

Every result is kept as JSON in the output folder, one file a data set and scorer: a second run reads what is there.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli.choices import CHOICES, offered
from isrr.cli.console import err, out
from isrr.cli.inputs import check_folder

if TYPE_CHECKING:
    from isrr.experiments.pools import Pools, Source

*RESULTS, ALL = CHOICES["result"]

Job = tuple[str, Callable[[], dict[str, Any]]]


def reproduce(
    result: Annotated[
        str,
        typer.Argument(
            help=f"What to reproduce: {', '.join(RESULTS)}, or {ALL}.", autocompletion=offered(CHOICES["result"])
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A data set: its folder (named as in `isrr data benchmarks`), NAME=FOLDER, a folder of such folders, "
            "or a file of judged queries with scores. Repeat for several. runtime needs none."
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Where results go.")] = Path("reproduction"),
    scorer: Annotated[
        list[str] | None, typer.Option(help="Scorers to use in place of the result's own. Repeat for several.")
    ] = None,
    splits: Annotated[int, typer.Option(help="Random splits of a table, as in the paper.")] = 50,
    many: Annotated[int, typer.Option(help="Splits of the long-run columns.")] = 1_000,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap repetitions.")] = 1_000,
    epochs: Annotated[int, typer.Option(help="Epochs of the nets.")] = 100,
    threads: Annotated[int, typer.Option(help="Threads of boosted trees; 0 takes all cores.")] = 0,
    sample: Annotated[int, typer.Option(help="Training queries that runtime times epochs on.")] = 2_000,
) -> None:
    """Reproduce tables and figures of the paper, ours beside the paper's."""
    from isrr.experiments.pools import Pools, sources

    if result not in CHOICES["result"]:
        raise ValueError(f"there is no result {result!r}; there are {', '.join(CHOICES['result'])}")
    wanted = RESULTS if result == ALL else [result]
    found = sources(data or [])
    if not found and wanted != ["runtime"]:
        raise ValueError("name a data set: --data FOLDER; `isrr data benchmarks` lists those of the catalog")
    check_folder(folder)
    pools = Pools(folder / "pools", epochs=epochs, threads=threads, say=lambda text: err.print(text))
    sizes = {"n_splits": splits, "many_splits": many, "n_bootstrap": bootstrap}
    jobs = {name: _jobs(name, pools, found, scorer or [], sizes, sample, folder / "results") for name in wanted}
    _work(jobs, folder)


def _jobs(
    result: str,
    pools: "Pools",
    found: Sequence["Source"],
    scorers: Sequence[str],
    sizes: dict[str, int],
    sample: int,
    results: Path,
) -> list[Job]:
    """What has to be measured for a result, each piece with its name."""
    from importlib import import_module

    from isrr.experiments import runtime
    from isrr.experiments.pools import DETERMINISTIC_SCORERS, GIVEN, STOCHASTIC_SCORERS
    from isrr.experiments.result import on_pool

    if result == "runtime":
        settings = {"epochs": 5, "n_train": sample}
        return [
            (f"runtime on the shape of {shape}", partial(runtime.on_shape, shape, settings, results))
            for shape in runtime.SHAPE_NAMES
        ]
    experiment = import_module(f"isrr.experiments.{result}")
    needed = ("n_splits", "many_splits", "n_bootstrap") if result in ("coverage", "stochastic") else ("n_splits",)
    settings = {name: sizes[name] for name in needed}
    own = {"stochastic": STOCHASTIC_SCORERS, "decay": ("catboost", "lightgbm")}.get(result, DETERMINISTIC_SCORERS)
    return [
        (
            f"{result} on {source.data} with {name}",
            partial(on_pool, result, experiment.measure, pools, source, name, settings, results),
        )
        for source in found
        for name in ((GIVEN,) if source.scored else scorers or own)
    ]


def _work(jobs: dict[str, list[Job]], folder: Path) -> None:
    """Do all jobs, drawing each result when its pieces are there; what is left shows on a terminal."""
    from isrr.cli.console import progress
    from isrr.experiments.output import draw

    total, done = sum(len(pieces) for pieces in jobs.values()), 0
    with progress("results") as advance:
        advance(0, total)
        for result, pieces in jobs.items():
            records = []
            for name, work in pieces:
                err.print(name)
                records.append(work())
                done += 1
                advance(done, total)
            for file in draw(result, records, folder):
                out.print(f"written: {file}", soft_wrap=True)
