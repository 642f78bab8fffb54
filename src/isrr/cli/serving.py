"""`isrr serve` and `isrr monitor`: rankings over HTTP, and the watch over their promise."""

from pathlib import Path
from typing import Annotated

import typer

from isrr.cli.calibration import RankerFile, Trust
from isrr.errors import DataError, MissingExtraError


def serve(
    ranker: RankerFile,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8080,
    workers: Annotated[int, typer.Option(help="Processes that serve.", min=1)] = 1,
    log: Annotated[Path | None, typer.Option(help="Folder for the served-ranking log.")] = None,
    log_megabytes: Annotated[int, typer.Option(help="A log file is closed at this size.", min=1)] = 256,
    api_key: Annotated[
        str | None, typer.Option(envvar="ISRR_API_KEY", help="What clients must send; better given in ISRR_API_KEY.")
    ] = None,
    max_items: Annotated[int, typer.Option(help="Longest list of candidates.", min=1)] = 10_000,
    max_body_megabytes: Annotated[int, typer.Option(help="Largest request body.", min=1)] = 16,
    max_concurrency: Annotated[int, typer.Option(help="Requests a worker takes at a time.", min=1)] = 256,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
    trust_edited: Trust = False,
) -> None:
    """Rank over HTTP: candidates with scores in, an order with a certificate behind it out."""
    try:
        from isrr.serve.server import run
        from isrr.serve.settings import Settings
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "serve") from None
    if log is not None and log.exists() and not log.is_dir():
        raise DataError(f"{log}: the served-ranking log is a folder; this is a file")
    settings = Settings(
        ranker=ranker.absolute(), trust_edited=trust_edited, api_key=api_key or None,
        log=None if log is None else log.absolute(), log_bytes=log_megabytes << 20, max_body=max_body_megabytes << 20,
        max_items=max_items, max_concurrency=max_concurrency,
    )  # fmt: skip
    run(settings, host=host, port=port, workers=workers, access_log=access_log)


def monitor(ranker: RankerFile) -> None:
    """Watch."""
