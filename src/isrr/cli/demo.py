"""`isrr demo`: the main job, end to end, on data made on the spot."""

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli.console import err, out, progress, say, show_outcome
from isrr.cli.inputs import check_folder
from isrr.cli.options import PROMISES, Promise
from isrr.cli.reporting import write_page
from isrr.counting import percent
from isrr.errors import MissingExtraError, PromiseError

if TYPE_CHECKING:
    from isrr.data.queries import Queries


def demo(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("isrr-demo"),
    promise: Promise = PROMISES[0],
    seed: Annotated[int, typer.Option(help="Random seed of the data.")] = 0,
) -> None:
    """Run the whole job on generated data: train, calibrate, print the certificate, draw the figure and the report."""
    from rich.table import Table

    from isrr.calibration.calibrate import calibrate
    from isrr.data.frames import write_queries
    from isrr.reporting.figures import tradeoff

    _refuse_unpromised(promise)
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    judged, validation = _scored_queries(seed)
    write_queries(judged, folder / "judged.parquet")
    write_queries(validation, folder / "validation.parquet")

    with progress("calibrating", "tuning and certifying") as advance:
        outcome = calibrate(judged, promise, validation=validation, progress=advance)
    show_outcome(outcome)
    outcome.save(folder / "ranker.json")

    thresholds = _thresholds_alone(judged, validation, outcome.k)
    say("\nHow the cost grows with fairness, as measured (only the certificate is a promise):")
    table = Table(f"{outcome.utility_name} kept", "less disparity", box=None)
    best = outcome.curve[0].utility.value
    for share in (0.99, 0.98, 0.97, 0.96, 0.95, 0.9):
        point = min(outcome.curve, key=lambda point: abs(point.utility.value - share * best))
        table.add_row(percent(point.utility.value / best), percent(point.fairness_gain.value))
    out.print(table)
    written = ["judged.parquet", "validation.parquet", "ranker.json"]
    try:
        tradeoff(outcome, folder / "tradeoff.png", thresholds)
        written.append("tradeoff.png")
    except MissingExtraError as missing:
        say(f"\nno picture is drawn: {missing}")
    write_page(folder / "report.html", outcome, judged, f"isrr demo --out {folder}")
    place, command = shlex.quote(str(folder)), _command()
    say(f"\nwritten: {', '.join(str(folder / name) for name in written)}")
    say(f"open in a browser: {folder}/report.html")
    say("\nNext, try:")
    say(f"  {command} show {place}/ranker.json")
    data = f"{place}/judged.parquet --validation {place}/validation.parquet"
    say(f"  {command} calibrate {data} -p '{promise}' -o {place}/again.json")


def _command() -> str:
    """How to call isrr from the present folder, so that the commands printed can be pasted as they are."""
    script = Path(sys.executable).with_name("isrr")
    if shutil.which("isrr") == str(script):
        return "isrr"
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m isrr"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))


def _refuse_unpromised(text: str) -> None:
    """Refuse a promise that cannot be read, and one that the demo's queries have no column for."""
    from isrr.promises import Promise

    try:
        lacking = set(Promise.parse(text).columns) - {"relevance"}
    except PromiseError as error:
        if "`bound=`" in str(error):
            raise PromiseError(f"expected a bound in the promise, as in '{text.strip()} with bound 10'") from None
        raise
    if lacking:
        raise PromiseError(
            f"the demo's items have no {lacking.pop().replace('_', ' ')}; expected another promise, such as one "
            "about ndcg"
        )


def _scored_queries(seed: int) -> "tuple[Queries, Queries]":
    """Judged and validation queries, made on the spot and scored by what was fitted to others."""
    import numpy as np

    from isrr.data.synthetic import generate
    from isrr.gains import ndcg

    made = generate("small", seed=seed)
    n_train, n_validation, n_judged = (len(part.queries) for part in made)
    say(f"queries: {n_train} for training, {n_validation} for validation, {n_judged} judged")
    with err.status("training, and compiling kernels (only the first time)"):
        score = _fitted(made.train.features, made.train.queries.relevance, seed)
        validation, judged = (part.queries.with_scores(score(part.features)) for part in made[1:])
        utility = float(np.nanmean(ndcg(judged)))
    say(f"scores:  LightGBM, NDCG@5 {utility:.4f} on the judged queries, sorted by score\n")
    return judged, validation


def _thresholds_alone(judged: "Queries", validation: "Queries", k: int) -> dict[str, Any]:
    """What the paper's search, by threshold alone at temperature 1, finds; and the utility of the order by score."""
    import numpy as np

    from isrr.metrics.disparity import fairness_gain
    from isrr.metrics.evaluate import evaluate
    from isrr.ranker.gpl import GPLRanker
    from isrr.ranker.scale import overall_mean_and_deviation

    mean, deviation = overall_mean_and_deviation(validation)
    largest = GPLRanker(k=k, mean=mean, deviation=deviation).eligibility(judged).max()
    thresholds = np.linspace(0.0, float(largest), 21)
    grid = [GPLRanker(k=k, threshold=float(t), mean=mean, deviation=deviation) for t in thresholds]
    with progress("measuring thresholds") as advance:
        found = evaluate(judged, [GPLRanker.deterministic(k), *grid], progress=advance)
    deterministic, *utility = found.mean("ndcg").tolist()
    reference, *disparities = found["disparity"].T
    return {
        "label": "threshold alone, temperature 1",
        "utility": utility,
        "gain": [fairness_gain(disparity, reference) for disparity in disparities],
        "deterministic": deterministic,
    }


def _fitted(features: Any, relevance: Any, seed: int) -> Callable[[Any], Any]:
    """Fit a quick LightGBM regression."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError("lightgbm", "demo") from None
    settings = {"objective": "regression", "learning_rate": 0.1, "num_leaves": 15, "verbose": -1, "seed": seed,
                "num_threads": 1, "deterministic": True}  # fmt: skip
    model = lightgbm.train(settings, lightgbm.Dataset(features, relevance), 60)
    return lambda rows: model.predict(rows)
