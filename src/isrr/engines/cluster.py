"""Spark as isrr uses it: the current session, or a new one; jobs with progress that stop on Ctrl-C.

What goes wrong in Java becomes one line.
"""

import os
import re
import socket
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from isrr.errors import DataError, EngineError, MissingExtraError
from isrr.parallel import Progress

Answer = TypeVar("Answer")

POLL = 0.2  # seconds
ANSWER_WITHIN = 5  # seconds
QUIET = Path(__file__).with_name("log4j2.properties")
OURS = {  # of sessions that isrr starts; the driver only plans and adds up, so its code is compiled lightly
    "spark.driver.extraJavaOptions": f'-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-Dlog4j2.configurationFile={QUIET}"',
    "spark.app.name": "isrr",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
MASTERS = ("local", "spark://", "yarn", "k8s://")
READING = {  # of the copies of sessions that files are read with
    "spark.sql.caseSensitive": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
WHOLE_FILES = dict.fromkeys(("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"), str(1 << 40))
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z_.0-9]+)\]\s+(?P<said>.+?)(?:\s+SQLSTATE:|\n|$)", re.DOTALL)
_IN_PYTHON = re.compile(r"^Traceback .*?\n(?P<said>[\w.]+: [^\n]+)", re.DOTALL | re.MULTILINE)
_UNREADABLE = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER")


def _answer(action: Callable[[], Answer], answer: Future[Answer]) -> None:
    """Call in a separate thread, so that Ctrl-C reaches the thread that waits, and never a socket of py4j."""
    try:
        answer.set_result(action())
    except BaseException as error:
        answer.set_exception(error)


def session(master: str | None) -> Any:
    """The current session, or a new one; by default workers run the same interpreter as this process."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if master is not None:
        check_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.config(map=dict(OURS))
    with pandas_unmentioned():
        return _started((builder.master(master) if master else builder).getOrCreate)


def check_master(master: str) -> None:
    """Refuse what Java would end for with a stack trace, or after a minute without naming the cause."""
    if not master.startswith(MASTERS):
        raise EngineError(
            f"{master!r} is not a Spark master; expected something like local[4], spark://host:7077 or yarn"
        )
    if master.startswith("spark://"):
        addresses = master.removeprefix("spark://").split(",")
        for host, _, port in (address.rpartition(":") for address in addresses):
            with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), ANSWER_WITHIN):
                return
        raise EngineError(f"no Spark master answers at {' or '.join(addresses)}")


def _started(start: Callable[[], Answer]) -> Answer:
    """Start a session in a separate thread; Ctrl-C waits for Java to be up, which from then on ends with us.

    Interrupted before, however often, PySpark would leave behind a process that nobody ends.
    """
    from pyspark import SparkContext

    answer = Future[Answer]()
    thread = Thread(target=_answer, args=(start, answer), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL)
    except BaseException:
        while thread.is_alive() and SparkContext._gateway is None:
            with suppress(KeyboardInterrupt):
                time.sleep(POLL)
        raise
    return answer.result()


def reading_session(master: str | None, *, whole_files: bool) -> Any:
    """A copy of that session, on the same cluster, to read files with: what is set there is set for nobody else.

    Args:
        master: Spark's master, where there is no session yet.
        whole_files: Whether every file is one partition, neither cut nor put together with others.
    """
    theirs = session(master)
    ours = type(theirs)(theirs.sparkContext, theirs._jsparkSession.cloneSession())
    for name, value in (READING | (WHOLE_FILES if whole_files else {})).items():
        ours.conf.set(name, value)
    return ours


def refuse_other_master(spark: Any, master: str | None) -> None:
    """A session keeps its master; asking it for another one is a mistake."""
    there = spark.sparkContext.master
    if master is not None and master != there:
        raise EngineError(f"a Spark session runs on {there}, not on {master}; leave out master, or stop that session")


@contextmanager
def pandas_unmentioned() -> Iterator[None]:
    """PySpark looks at the version of pandas wherever Arrow is meant; no pandas is used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


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
    """Run the action in a separate thread, so that this one can watch it and stop it."""
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

    answer = Future[Answer]()
    thread = InheritableThread(target=_answer, args=(work, answer), daemon=True)
    thread.start()
    if progress:
        InheritableThread(target=_answer, args=(watch, Future[None]()), daemon=True).start()
    try:
        while thread.is_alive():
            thread.join(POLL)
            if progress:
                progress(*seen[0])
    except BaseException:
        context.cancelJobGroup(group)
        raise
    return answer.result()


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
    if in_python := _IN_PYTHON.search(text):
        return EngineError(f"{name}: Spark gave up: in a Python worker, {in_python['said']}")
    found = _CONDITION.search(text)
    said = " ".join((found["said"] if found else _first_line(text)).split())
    if found and found["name"].startswith(_UNREADABLE):
        cause = _CONDITION.search(text, found.end())
        return DataError(f"{name}: cannot be read: {said}" + (f" ({cause['said']})" if cause else ""))
    return EngineError(f"{name}: Spark gave up: {said}")
