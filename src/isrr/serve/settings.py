"""Settings of the service."""

from dataclasses import dataclass
from pathlib import Path

from isrr.serve.upstream import Upstream


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one app; `create_app` takes them as keyword arguments."""

    ranker: Path
    trust_edited: bool = False  # accept a ranker file that was edited by hand
    api_key: str | None = None  # sent as `Authorization: Bearer …` or `X-API-Key`; None lets everybody in
    log: Path | None = None  # folder of the served-ranking log, which must exist; None keeps no log
    log_bytes: int = 256 << 20  # size at which a log file is closed and another one begun
    log_compress: bool = False  # compress each log file with gzip once it is closed
    rotate: float | None = None  # seconds in which requests without a session get one draw per query; None: fresh draws
    rollout: bool = False  # split sessions at random, as the rollout's state beside the ranker file says
    max_body: int = 16 << 20  # bytes
    max_items: int = 10_000  # candidates in a list
    max_queries: int = 1_000  # lists in a batch
    max_concurrency: int = 256  # requests being answered at a time; one counts once its body is there
    body_timeout: float = 10.0  # seconds that a body may take to arrive
    poll: float = 1.0  # seconds between looks at the ranker and status files
    upstream: Upstream | None = None  # scores texts that come without scores
    parent: int | None = None  # id of the process that ends the service when it dies

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("`api_key=` is empty, which would let everybody in; expected a key, or no option")
        if self.rotate is not None and not self.rotate >= 1:
            raise ValueError(f"`rotate=` must be at least one second, got {self.rotate:g}; expected 1h or 1d, say")
        if self.rotate is not None and self.rollout:
            raise ValueError("`rotate=` gives everybody one order, and `rollout=True` splits sessions; choose one")
