"""Spark sessions as isrr takes them: the one there is, else one of its own; and what is set for a while."""

import os
import re
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock, Thread
from typing import Any
from weakref import WeakKeyDictionary

from isrr.engines.jobs import POLL, Answer, Call
from isrr.errors import EngineError

ANSWER_WITHIN = 5  # seconds
QUIET = Path(__file__).with_name("log4j2.properties")
OURS = {  # of sessions that isrr starts; the driver only plans and adds up, so its code is compiled lightly
    "spark.driver.extraJavaOptions": f'-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-Dlog4j2.configurationFile={QUIET}"',
    "spark.app.name": "isrr",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
READING = {  # of the copies of sessions that files are read with
    "spark.sql.caseSensitive": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by session
_MASTER = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[.+\]|spark://[^/]+:\d+|yarn|k8s://.+")


def session(master: str | None) -> Any:
    """The session there is, else a new one; workers run the interpreter that this is, unless told otherwise."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        refuse_other_master(active, master)
        return active
    check_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.config(map=dict(OURS))
    with pandas_unmentioned():
        return _started((builder.master(master) if master else builder).getOrCreate)


def check_master(master: str | None) -> None:
    """Refuse what names no master, and a standalone one that does not answer: Spark itself takes long to say so."""
    if master is None:
        return
    if not _MASTER.fullmatch(master):
        forms = "local, local[4], spark://host:7077, yarn or k8s://…"
        raise EngineError(f"{master!r} is no master of Spark; needed is one like {forms}")
    if not master.startswith("spark://"):
        return
    addresses = master.removeprefix("spark://").split(",")
    if not any(_answers(address) for address in addresses):
        raise EngineError(f"no Spark master answers at {' or '.join(addresses)}")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_WITHIN).close()
    except (OSError, ValueError):
        return False
    return True


def _started(start: Callable[[], Answer]) -> Answer:
    """Start a session in a thread of its own; Ctrl-C waits for Java to be up, which from then on ends with us.

    Interrupted before, however often, PySpark would leave behind a process that nobody ends.
    """
    from pyspark import SparkContext

    call = Call(start)
    thread = Thread(target=call, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL)
    except BaseException:
        while thread.is_alive() and SparkContext._gateway is None:
            with suppress(KeyboardInterrupt):
                time.sleep(POLL)
        raise
    return call.answer()


def own_session(master: str | None) -> Any:
    """A copy of that session, on the same cluster: what is set there is set for nobody else."""
    theirs = session(master)
    ours = type(theirs)(theirs.sparkContext, theirs._jsparkSession.cloneSession())
    for name, value in READING.items():
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


@contextmanager
def settings(spark: Any, chosen: Mapping[str, str]) -> Iterator[None]:
    """Run the body with these settings of a session; afterwards it has its own again. One body at a time."""
    with _locks.setdefault(spark, RLock()):
        before = {name: spark.conf.get(name, None) for name in chosen}
        try:
            for name, value in chosen.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, value in before.items():
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)
