"""Rankings over HTTP from a loaded certificate, and the log of what was served."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["create_app"]


def create_app(ranker: str | PathLike[str], **settings: Any) -> "Starlette":
    """Return the service over a ranker file as an ASGI app, to be run by any server or mounted in another app.

    Watching the ranker file and the log begin with the first request. Compiling the kernels, or loading them, takes a
    few seconds and happens here.

    Args:
        ranker: The ranker file.
        settings: Fields of `isrr.serve.app.Settings`, such as `api_key=`, `log=` (a folder that exists), `rotate=`
            (in seconds) and `upstream=` (an `isrr.serve.upstream.Upstream`).
    """
    from isrr.serve.app import Service, Settings  # not before: `isrr serve` sets up prometheus_client

    if (folder := settings.get("log")) is not None:
        settings["log"] = Path(folder).absolute()
    return Service(Settings(ranker=Path(ranker).absolute(), **settings)).app()
