"""`isrr demo`: the main job, end to end, on data made on the spot."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.cli.choices import PROMISES
from isrr.cli.console import err, out, progress, say, show_outcome
from isrr.cli.inputs import check_folder
from isrr.cli.options import Promise
from isrr.cli.reporting import write_page
from isrr.counting import percent
from isrr.errors import GuaranteeError, MissingExtraError


def demo(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Where to write the results.")] = Path("isrr-demo"),
    guarantee: Promise = PROMISES[0],
    seed: Annotated[int, typer.Option(help="Names the data.")] = 0,
) -> None:
    """Make queries, train a scorer, calibrate, print certificate and trade-off, draw the figure and the page."""
    import numpy as np

    from isrr.calibration.calibrate import calibrate
    from isrr.data.frames import write_queries
    from isrr.data.synthetic import generate
    from isrr.gains import ndcg
    from isrr.guarantee import Guarantee
    from isrr.metrics.disparity import fairness_gain
    from isrr.metrics.evaluate import evaluate
    from isrr.ranker.gpl import GPLRanker
    from isrr.ranker.thresholds import uniform_grid
    from isrr.report.figures import tradeoff
    from isrr.scores.standardize import mean_and_deviation

    if Guarantee.parse(guarantee).metric == "group_exposure":
        raise GuaranteeError("the demo's items belong to no groups; promise ndcg or normalized_disparity")
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = generate("small", seed=seed)
    say(f"queries: {len(made.train)} to train, {len(made.validation)} to validate, {len(made.test)} judged")
    with err.status("training and compiling kernels (compiled once, then cached)"):
        scorer, score = _fitted(made.train.features, made.train.relevance, seed)
        validation = made.validation.with_scores(score(made.validation.features))
        judged = made.test.with_scores(score(made.test.features))
        utility = float(np.nanmean(ndcg(judged)))
    say(f"scores:  {scorer}, NDCG@5 {utility:.4f} on the judged queries, in the deterministic order\n")
    write_queries(judged, folder / "judged.parquet")
    write_queries(validation, folder / "validation.parquet")

    with progress("calibrating", "tuning and certifying") as advance:
        outcome = calibrate(judged, guarantee, validation=validation, progress=advance)
    show_outcome(outcome)
    outcome.save(folder / "ranker.json")

    mean, deviation = mean_and_deviation(validation)
    base = GPLRanker(k=outcome.k, mean=mean, deviation=deviation)
    thresholds = uniform_grid(base.eligibility(judged))
    grid = [GPLRanker(k=outcome.k, threshold=float(t), mean=mean, deviation=deviation) for t in thresholds]
    with progress("the paper's thresholds") as advance:
        curve = evaluate(judged, [GPLRanker.deterministic(outcome.k), *grid], progress=advance)
    gains = [fairness_gain(curve.disparity[:, c], curve.disparity[:, 0]) for c in range(len(grid) + 1)]
    out.print(_table(thresholds, curve.mean_ndcg[1:], curve.mean_disparity[1:], gains[1:], outcome.k))
    written = [folder / name for name in ("judged.parquet", "validation.parquet", "ranker.json", "tradeoff.png")]
    reference = {
        "label": "threshold alone, temperature 1",
        "utility": curve.mean_ndcg[1:],
        "gain": gains[1:],
        "deterministic": utility,
    }
    try:
        tradeoff(outcome, folder / "tradeoff.png", reference)
    except MissingExtraError as missing:
        say(f"\nno picture is drawn: {missing}")
        written.pop()
    write_page(folder / "report.html", outcome, judged, validation, f"isrr demo --out {folder}")
    say(f"\nwritten: {', '.join(map(str, written))}")
    say(f"to look at, in any browser: {folder}/report.html")
    files = f"{folder}/judged.parquet --validation {folder}/validation.parquet"
    say(f"again, by hand: isrr calibrate {files} -g '{guarantee}' -o {folder}/again.json")


def _fitted(features: Any, relevance: Any, seed: int) -> tuple[str, Callable[[Any], Any]]:
    """A quick scoring function and its name: a LightGBM regression where it is installed, else least squares."""
    import numpy as np

    try:
        import lightgbm
    except ImportError:
        missing = MissingExtraError("lightgbm", "lightgbm")
        say(f"no trees are trained, scores are fitted by least squares instead: {missing}")
        weights, *_ = np.linalg.lstsq(features, relevance, rcond=None)
        return "least squares", lambda rows: rows @ weights
    settings = {"objective": "regression", "learning_rate": 0.1, "num_leaves": 15, "verbose": -1, "seed": seed,
                "num_threads": 1, "deterministic": True}  # fmt: skip
    model = lightgbm.train(settings, lightgbm.Dataset(features, relevance), 60)
    return "LightGBM", lambda rows: model.predict(rows)


def _table(thresholds: Any, utility: Any, disparity: Any, gains: Any, k: int) -> Any:
    from rich.table import Table

    table = Table("threshold", f"NDCG@{k}", "disparity", "fairer by", title="GPL by threshold, temperature 1", box=None)
    for row in zip(thresholds, utility, disparity, gains, strict=True):
        table.add_row(*(f"{value:.4f}" for value in row[:3]), percent(row[3]))
    return table
