"""`isrr demo`: the main job, end to end, on generated data."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from isrr.cli import options as o
from isrr.cli.console import err, out, progress, say, show_outcome
from isrr.cli.inputs import check_folder
from isrr.counting import percent
from isrr.errors import MissingExtraError, PromiseError

if TYPE_CHECKING:
    from isrr.data.queries import Queries


def demo(
    folder: Annotated[Path, o.option("Folder for the results.", "--out", "-o")] = Path("isrr-demo"),
    promise: o.DemoPromise = o.PROMISES[0],
    seed: Annotated[int, o.option("Random seed of the data.")] = 0,
) -> None:
    """Try everything on generated data: train, calibrate, print the certificate, write a figure and a report.

    isrr demo --out isrr-demo
    """
    from rich.table import Table

    from isrr.calibration.calibrate import calibrate
    from isrr.data.copies import write_queries
    from isrr.reporting.figures import tradeoff
    from isrr.reporting.page import report

    _refuse_promise(promise)
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    judged, validation = _scored_queries(seed)
    write_queries(judged, folder / "judged.parquet")
    write_queries(validation, folder / "validation.parquet")

    with progress("calibrating", "tuning and certifying") as advance:
        outcome = calibrate(judged, promise, validation=validation, progress=advance)
    show_outcome(outcome)
    outcome.save(folder / "ranker.json")

    say("\nWhat more fairness costs, as measured (only the certificate is a promise):")
    table = Table(f"{outcome.utility_name} kept", "less disparity", box=None)
    best = outcome.curve[0].utility.value
    for share in (0.99, 0.98, 0.97, 0.96, 0.95, 0.9):
        point = min(outcome.curve, key=lambda point: abs(point.utility.value - share * best))
        table.add_row(percent(point.utility.value / best), percent(point.fairness_gain.value))
    out.print(table)
    written = ["judged.parquet", "validation.parquet", "ranker.json", "tradeoff.png"]
    try:
        tradeoff(outcome, folder / "tradeoff.png")
    except MissingExtraError as missing:
        say(f"\nno picture is drawn: {missing}")
        written.remove("tradeoff.png")
    with progress("measuring the path") as advance:
        page = report(outcome, judged, command=f"isrr demo --out {folder}", progress=advance)
    page.save(folder / "report.html")

    command = "isrr" if shutil.which("isrr") else f"{shlex.quote(sys.executable)} -m isrr"
    place = shlex.quote(str(folder))
    say(f"\nwritten: {', '.join(str(folder / name) for name in written)}")
    say(f"open in a browser: {folder}/report.html")
    say("\nNext, try:")
    say(f"  {command} show {place}/ranker.json")
    data = f"{place}/judged.parquet --validation {place}/validation.parquet"
    say(f"  {command} calibrate {data} -p '{promise}' -o {place}/again.json")


def _refuse_promise(text: str) -> None:
    """Refuse a promise that cannot be read, or that the demo's queries have no column for."""
    from isrr.promises import Promise

    try:
        missing = set(Promise.parse(text).columns) - {"relevance"}
    except PromiseError as error:
        if "`bound=`" in str(error):
            raise PromiseError(f"expected a bound in the promise, as in '{text.strip()} with bound 10'") from None
        raise
    if missing:
        raise PromiseError(
            f"the demo's items have no {missing.pop().replace('_', ' ')}; expected another promise, such as one about "
            "ndcg"
        )


def _scored_queries(seed: int) -> "tuple[Queries, Queries]":
    """Generate judged and validation queries, scored by LightGBM trained on others."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError("lightgbm", "demo") from None
    import numpy as np

    from isrr.data.synthetic import generate
    from isrr.gains import ndcg

    parts = generate("small", seed=seed)
    n_train, n_validation, n_judged = (len(part.queries) for part in parts)
    say(f"queries: {n_train} for training, {n_validation} for validation, {n_judged} judged")
    settings = {"objective": "regression", "learning_rate": 0.1, "num_leaves": 15, "verbose": -1, "seed": seed,
                "num_threads": 1, "deterministic": True}  # fmt: skip
    with err.status("training, and compiling kernels (only the first time)"):
        training = lightgbm.Dataset(parts.train.features, parts.train.queries.relevance)
        model = lightgbm.train(settings, training, 60)
        validation, judged = (part.queries.with_scores(model.predict(part.features)) for part in parts[1:])
        utility = float(np.nanmean(ndcg(judged)))
    say(f"scores:  LightGBM, NDCG@5 {utility:.4f} on the judged queries, sorted by score\n")
    return judged, validation
