"""From records to files: the tables of a result and its figures."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from isrr.experiments.result import Record
from isrr.report import figures
from isrr.report.tables import write_tables


def draw(result: str, records: list[Record], folder: Path) -> list[Path]:
    """Write the tables and figures of one result; the files written."""
    experiment = import_module(f"isrr.experiments.{result}")
    folder.mkdir(parents=True, exist_ok=True)
    written = write_tables(experiment.rows(records), folder / result, getattr(experiment, "READING", ""))
    if hasattr(experiment, "averages"):
        written += write_tables(
            experiment.averages(records), folder / f"{result}-averages", experiment.READING_AVERAGES
        )
    picture = _PICTURES.get(result)
    for record in records if picture else ():
        assert picture is not None
        file = folder / f"{result}-{record['data']}-{record['scorer']}"
        picture(record, f"{record['title']} on {record['data']}", file)
        written += [file.with_suffix(suffix) for suffix in (".png", ".svg")]
    return written


def _histograms(record: Record, title: str, file: Path) -> None:
    deterministic = record["deterministic"]
    panels = [
        {
            "name": f"{figures_of['by']}: {figures_of['name']}",
            "utilities": figures_of["utilities"],
            "level": figures_of["target"] * (deterministic if "deterministic" in figures_of["promise"] else 1.0),
            "deterministic": deterministic,
        }
        for figures_of in record["procedures"]
    ]
    figures.utility_histograms(panels, title, file)


def _decays(record: Record, title: str, file: Path) -> None:
    figures.decay_curves(record["decays"], title, file)


_PICTURES: dict[str, Callable[[Any, str, Path], None]] = {
    "tradeoff": figures.threshold_curves,
    "coverage": _histograms,
    "stochastic": _histograms,
    "decay": _decays,
}
