"""Spark jobs as isrr runs them: with progress, stopped by Ctrl-C, and failing with one line."""

import re
import uuid
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from isrr.errors import DataError, EngineError, MissingExtraError
from isrr.parallel import Progress

Answer = TypeVar("Answer")

POLL = 0.2  # seconds
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z_.0-9]+)\]\s+(?P<said>.+?)(?:\s+SQLSTATE:|\n|$)", re.DOTALL)
_UNREADABLE = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER")


class Call(Generic[Answer]):
    """A call made in a thread of its own, so that Ctrl-C reaches the thread that waits, and never a socket of py4j."""

    def __init__(self, action: Callable[[], Answer]):
        self._action = action
        self._answers: list[Answer] = []
        self._failures: list[BaseException] = []

    def __call__(self) -> None:
        try:
            self._answers.append(self._action())
        except BaseException as error:
            self._failures.append(error)

    def answer(self) -> Answer:
        """What it returned; or what it raised."""
        if self._failures:
            raise self._failures[0]
        return self._answers[0]


def run_job(action: Callable[[], Answer], name: str, spark: Any = None, progress: Progress | None = None) -> Answer:
    """What an action on the cluster returns; what goes wrong there becomes one line.

    Args:
        action: Called once.
        name: What errors call the data.
        spark: The session; needed to follow the job.
        progress: Called with (tasks done, tasks known) while it runs.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError:
        raise MissingExtraError("pyspark", "spark") from None

    try:
        return action() if spark is None else _followed(action, spark.sparkContext, progress)
    except (PySparkException, Py4JError) as error:
        raise _in_one_line(str(error), name) from None


def _followed(action: Callable[[], Answer], context: Any, progress: Progress | None) -> Answer:
    """Run the action in a thread of its own, so that this one can watch it and stop it."""
    from pyspark import InheritableThread

    group = uuid.uuid4().hex
    seen = [(0, 0)]

    def work() -> Answer:
        context.setJobGroup(group, "isrr", interruptOnCancel=True)
        return action()

    def watch() -> None:
        while thread.is_alive():
            seen[0] = _tasks(context.statusTracker(), group)
            thread.join(POLL)

    call = Call(work)
    thread = InheritableThread(target=call, daemon=True)
    thread.start()
    if progress:
        InheritableThread(target=Call(watch), daemon=True).start()
    try:
        while thread.is_alive():
            thread.join(POLL)
            if progress:
                progress(*seen[0])
    except BaseException:
        context.cancelJobGroup(group)
        raise
    return call.answer()


def _tasks(tracker: Any, group: str) -> tuple[int, int]:
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    known = [stage for stage in stages if stage]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


def _first_line(text: str) -> str:
    """What went wrong in Java, without what was called there and from where."""
    lines = [line.removeprefix(": ") for line in text.strip().splitlines() if not line.startswith("An error occurred")]
    return lines[0] if lines else text


def _in_one_line(text: str, name: str) -> DataError | EngineError:
    found = _CONDITION.search(text)
    said = " ".join((found["said"] if found else _first_line(text)).split())
    if found and found["name"].startswith(_UNREADABLE):
        cause = _CONDITION.search(text, found.end())
        return DataError(f"{name}: cannot be read: {said}" + (f" ({cause['said']})" if cause else ""))
    return EngineError(f"{name}: Spark gave up: {said}")
