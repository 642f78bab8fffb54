"""Rankings over HTTP from a loaded certificate, and the log of what was served."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isrr.serve.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """Import `create_app` on first use: `isrr serve` sets up prometheus_client before it is imported."""
    if name == "create_app":
        from isrr.serve.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
