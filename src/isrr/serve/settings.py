"""Settings of the service."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one app; `create_app` takes them as keyword arguments.

    Attributes:
        ranker: The ranker file.
        trust_edited: Accept a ranker file that was edited by hand.
        api_key: Clients must send it as `Authorization: Bearer …` or `X-API-Key`; None lets everybody in.
        log: Folder of the served-ranking log, which must exist; None keeps no log.
        log_bytes: Size at which a log file is closed and another one begun.
        log_hottest: Leave candidates out of the log that no ranker up to this temperature can bring to the first k
            places; None logs all.
        log_compress: Compress each log file with gzip once it is closed.
        rotate: Length in seconds of the periods in which requests without a session get one draw per query; None draws
            anew for every request.
        rollout: Split sessions at random, as the rollout's state beside the ranker file says.
        max_body: Largest request body, in bytes.
        max_items: Longest list of candidates.
        max_queries: Most queries in a batch.
        max_concurrency: Requests being answered at a time; more get 503. A request counts once its body is there.
        body_timeout: Seconds a client may take to send its body.
        poll: Seconds between looks at the ranker and status files.
        parent: Process that ends the service when it dies, by id; None for none.
    """

    ranker: Path
    trust_edited: bool = False
    api_key: str | None = None
    log: Path | None = None
    log_bytes: int = 256 << 20
    log_hottest: float | None = None
    log_compress: bool = False
    rotate: float | None = None
    rollout: bool = False
    max_body: int = 16 << 20
    max_items: int = 10_000
    max_queries: int = 1_000
    max_concurrency: int = 256
    body_timeout: float = 10.0
    poll: float = 1.0
    parent: int | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("`api_key=` is empty, which would let everybody in; expected a key, or no option")
        if self.log_hottest is not None and not self.log_hottest > 0:
            raise ValueError(f"`log_hottest=` must be a temperature > 0, got {self.log_hottest:g}")
        if self.rotate is not None and not self.rotate >= 1:
            raise ValueError(f"`rotate=` must be at least one second, got {self.rotate:g}; expected 1h or 1d, say")
        if self.rotate is not None and self.rollout:
            raise ValueError("`rotate=` gives everybody one order, and `rollout=True` splits sessions; choose one")
