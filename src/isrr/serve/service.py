"""What the endpoints of an app share: the certificate in use, the log, the metrics, and the watch over the files."""

import asyncio
import logging
import os
import signal
from collections.abc import Sequence

import msgspec

from isrr.serve.current import CurrentCertificate, Snapshot
from isrr.serve.metrics import ServiceMetrics
from isrr.serve.ranking import RankCall, RankedList, rank_call, rank_list
from isrr.serve.schema import Candidate, RankRequest, Refusal
from isrr.serve.settings import Settings
from isrr.serve.writer import LogWriter, log_line

log = logging.getLogger("isrr.serve")


class Served(msgspec.Struct, frozen=True, gc=False):
    """A list on its way out."""

    ranked: RankedList
    snapshot: Snapshot
    line: bytes | None  # in the log, where one is kept


class Service:
    """The certificate in use, the log and the metrics."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.current = CurrentCertificate(
            settings.ranker, trust_edited=settings.trust_edited, rolled_out=settings.rollout
        )
        self.metrics = ServiceMetrics()
        self.log: LogWriter | None = None
        if settings.log is not None:
            self.log = LogWriter(settings.log, settings.log_bytes, compress=settings.log_compress)
        self._watching: asyncio.Task[None] | None = None
        items = [Candidate("a", 1.0), Candidate("b", 0.5), Candidate("c", 0.5)]  # compile what a request needs
        rank_list(self.current.now, rank_call(RankRequest("q", items, "s"), 1, settings))

    def start(self) -> None:
        """Watch the files, unless it does so already; called for every request, as a mounted app has no other start."""
        if self._watching is None or self._watching.done():
            self._show()
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        """Stop watching and close the log."""
        if self._watching is not None:
            self._watching.cancel()
        self.metrics.share()
        if self.log is not None:
            self.log.close()

    def serve(self, snapshot: Snapshot, call: RankCall) -> Served:
        """Make a list, and its line in the log where one is kept."""
        ranked = rank_list(snapshot, call)
        if self.log is None:
            return Served(ranked, snapshot, None)
        line = log_line(snapshot, call, ranked, self.settings.log_hottest)
        return Served(ranked, snapshot, msgspec.json.encode(line))

    def keep(self, lists: Sequence[Served]) -> None:
        """Log lists, then count them; raises Refusal where they cannot be logged, as then they must not be served."""
        if self.log is not None and lists:
            try:
                self.log.write(*(each.line for each in lists if each.line is not None))
            except OSError as error:
                log.error("the served-ranking log cannot be written", extra={"error": str(error)})
                raise Refusal(503, "the served-ranking log cannot be written, so nothing is served") from None
        for each in lists:
            self.metrics.count_list(each.ranked, each.snapshot)

    def refresh(self) -> None:
        """Look at the ranker and status files."""
        before = self.current.reload_error
        if self.current.refresh():
            self._show()
        if self.current.reload_error not in (None, before):
            self.metrics.count_reload_failure()

    def _show(self) -> None:
        """Name the certificate in the metrics, and leave a copy of it beside the log.

        Clicks on the lists are weighed by the ranker that drew them.
        """
        note, folder = self.current.now.note, self.settings.log
        self.metrics.show_certificate(note.id, note.status)
        if folder is not None and not (folder / f"ranker-{note.id}.json").exists():
            try:
                self.current.now.outcome.save(folder / f"ranker-{note.id}.json")
            except OSError as error:
                log.warning("the ranker file cannot be kept beside the log", extra={"error": str(error)})

    async def _watch(self) -> None:
        """Look at the files until the parent process is gone; nothing that goes wrong with them ends the watch."""
        failure = ""
        while self.settings.parent in (None, os.getppid()):
            try:
                self.metrics.share()
                self.refresh()
                failure = ""
            except Exception as error:
                if failure != repr(error):  # logged once for as long as it goes on
                    log.exception("the files cannot be looked at; trying again", extra={"error": str(error)})
                failure = repr(error)
            await asyncio.sleep(self.settings.poll)
        log.error("the parent process is gone; shutting down")
        os.kill(os.getpid(), signal.SIGTERM)
