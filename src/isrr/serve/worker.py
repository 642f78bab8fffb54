"""One worker: what it holds, how it starts, what it watches while it serves, how it ends."""

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from isrr.files import hold
from isrr.serve.current import CurrentCertificate
from isrr.serve.metrics import ServiceMetrics
from isrr.serve.ranking import make, wanted
from isrr.serve.schema import Candidate, RankRequest, Readiness, Refusal
from isrr.serve.served_log import Served, ServedLog
from isrr.serve.settings import Settings

log = logging.getLogger("isrr.serve")


class Worker:
    """What the endpoints work with.

    Attributes:
        settings: What the service was told.
        current: The certificate in use.
        metrics: What was counted.
        log: The served-ranking log; None keeps none.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.current = CurrentCertificate(
            settings.ranker, trust_edited=settings.trust_edited, rolled_out=settings.rollout
        )
        self.metrics = ServiceMetrics()
        self.metrics.show_status(self.current.now.note.status)
        self.log = None if settings.log is None else ServedLog(settings.log, settings.log_bytes)
        self._keep_ranker()
        self._watching: asyncio.Task[None] | None = None
        self._failures: dict[Callable[[], None], str] = {}

    def _keep_ranker(self) -> None:
        """Leave a copy of the ranker file in the log's folder: clicks on the lists are weighed by what drew them."""
        outcome, folder = self.current.now.outcome, self.settings.log
        if folder is not None and not (folder / f"ranker-{outcome.id}.json").exists():
            try:
                outcome.save(folder / f"ranker-{outcome.id}.json")
            except OSError as error:
                log.warning("the ranker file cannot be kept beside the log", extra={"error": str(error)})

    def readiness(self) -> tuple[Readiness, str | None]:
        """Whether it has started, sees what becomes of the certificate, and can write the log; why it cannot."""
        if self._watching is None:
            return "starting", None
        if self._watching.done():
            return "unwatched", None
        unlogged = None if self.log is None else self.log.problem()
        return "ok" if unlogged is None else "unlogged", unlogged

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Compile, watch the files; at the end, close the log."""
        self.warm_up()
        gc.collect()
        gc.freeze()  # what the imports left will live as long as the process: no need to walk it again
        if threading.current_thread() is threading.main_thread():
            reload = partial(self._attempt, partial(self.refresh, force=True))
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # it was held back until it could be answered
        self._watching = asyncio.create_task(self._watch())
        log.info("ready", extra={"certificate": self.current.now.note.id, "pid": os.getpid()})
        yield
        self._watching.cancel()
        self._watching = None
        if self.log is not None:
            self.log.close()

    def keep(self, lists: Sequence[Served]) -> None:
        """Log lists, then count them; raises Refusal where they cannot be logged, as then they must not be served."""
        if self.log is not None and lists:
            try:
                self.log.write(*(each.line for each in lists if each.line is not None))
            except OSError as error:
                log.error("the served-ranking log cannot be written", extra={"error": str(error)})
                raise Refusal(503, "the served-ranking log cannot be written, so nothing is served") from None
        for each in lists:
            self.metrics.count_list(each.made, each.snapshot)

    def warm_up(self) -> None:
        """Compile what a request needs, so that the first one does not wait for it."""
        items = [Candidate("a", 1.0), Candidate("b", 0.5), Candidate("c", 0.5)]
        make(self.current.now, wanted(RankRequest("q", items, "s"), 1, 3))

    def refresh(self, *, force: bool = False) -> None:
        """Look at the ranker and status files."""
        before = self.current.reload_error
        if self.current.refresh(force=force):
            self.metrics.show_status(self.current.now.note.status)
            self._keep_ranker()
        if self.current.reload_error is not None and (force or self.current.reload_error != before):
            self.metrics.count_reload_failure()

    async def _watch(self) -> None:
        """Look at the files, and tell the other workers what was counted, until the supervisor is gone."""
        held = -1 if self.settings.supervisor is None else os.open(self.settings.supervisor, os.O_RDONLY)
        while held < 0 or not hold(held):
            self._attempt(self.refresh)
            self._attempt(self.metrics.share)
            await asyncio.sleep(self.settings.poll)
        log.error("the supervisor is gone; shutting down")
        os.kill(os.getpid(), signal.SIGTERM)

    def _attempt(self, step: Callable[[], None]) -> None:
        """Take a step that must not end the watch; what goes wrong is logged, once for as long as it goes on."""
        try:
            step()
            self._failures.pop(step, None)
        except Exception as error:
            if self._failures.get(step) != repr(error):
                log.exception("a step of the watch failed; it will be tried again", extra={"error": str(error)})
            self._failures[step] = repr(error)
