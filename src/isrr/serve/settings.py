"""How a service is set up; one value, handed to every worker."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """What `isrr serve` was told.

    Attributes:
        ranker: The ranker file.
        trust_edited: Accept a ranker file that was edited by hand.
        api_key: What clients must send as `Authorization: Bearer …` or `X-API-Key`; None lets everybody in.
        log: Folder of the served-ranking log; None keeps none.
        log_bytes: A log file is closed and another begun at this size.
        log_hottest: Leave candidates out of the log that no ranker up to this temperature can bring to the first k
            places; None logs all.
        rollout: Whether sessions are split at random, as the rollout's state beside the ranker file says.
        max_body: Largest request body, bytes.
        max_items: Longest list of candidates.
        max_queries: Most queries in a batch.
        max_concurrency: Requests a worker takes at a time; more are answered 503.
        header_timeout: Seconds a client may take to send the headers of a request; then its connection is closed.
        body_timeout: Seconds a client may take to send its body.
        send_timeout: Seconds a client may leave answers unread once the send buffer is full; then it is cut off.
        poll: Seconds between looks at the ranker and status files.
        supervisor: A file that the supervisor holds while it lives; a worker that outlives it shuts down. None for a
            lone worker.
    """

    ranker: Path
    trust_edited: bool = False
    api_key: str | None = None
    log: Path | None = None
    log_bytes: int = 256 << 20
    log_hottest: float | None = None
    rollout: bool = False
    max_body: int = 16 << 20
    max_items: int = 10_000
    max_queries: int = 1_000
    max_concurrency: int = 256
    header_timeout: float = 10.0
    body_timeout: float = 10.0
    send_timeout: float = 10.0
    poll: float = 1.0
    supervisor: Path | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("`api_key=` is empty, which would let everybody in; expected a key, or no option")
        if self.log_hottest is not None and not self.log_hottest > 0:
            raise ValueError(f"`log_hottest=` must be a temperature > 0, got {self.log_hottest:g}")
