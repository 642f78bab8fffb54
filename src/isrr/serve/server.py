"""Processes: one worker, or a supervisor over several, and the lines they write to standard error.

The supervisor starts a worker again when it dies and passes SIGHUP on, at which each worker reloads the certificate in
place. Workers are forked from a process that has imported what they need, so that one that died is soon replaced even
on a busy machine. A process holds SIGHUP back until it can answer it. SIGTERM and Ctrl-C let requests in flight finish;
the service then says that it stopped, and exits with 0.
"""

import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from logging.config import dictConfig
from pathlib import Path
from typing import Any

from uvicorn import Config, Server
from uvicorn._subprocess import subprocess_started
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from isrr.files import hold
from isrr.serve.app import create_app
from isrr.serve.connection import PromptConnection
from isrr.serve.current import CurrentCertificate
from isrr.serve.metrics import FOLDER
from isrr.serve.served_log import prepare
from isrr.serve.settings import Settings

log = logging.getLogger("isrr.serve")
GRACE = 30  # seconds that requests in flight have to finish
NOT_STARTED = 3  # uvicorn's exit code for a service that could not start; here 3 means an abstention


HUP = {signal.SIGHUP}
FORKING = multiprocessing.get_context("forkserver")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and whatever was given as `extra`."""

    PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in self.PLAIN}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "isrr.serve.server.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
        for name in ("isrr.serve", "uvicorn", "uvicorn.error", "uvicorn.access")
    },
}


class WorkerProcess(Process):
    """uvicorn's handle on a worker, which is forked from a warm process and inherits that SIGHUP is held back."""

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        given = {"config": config, "target": self.target, "sockets": sockets, "stdin_fileno": None}
        self.process = FORKING.Process(target=subprocess_started, kwargs=given)  # type: ignore[assignment]

    def start(self) -> None:
        """Fork it."""
        FORKING.set_forkserver_preload(["isrr.serve.preload"])
        signal.pthread_sigmask(signal.SIG_BLOCK, HUP)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HUP)


class Supervisor(Multiprocess):
    """uvicorn's supervisor; SIGHUP reloads certificates instead of replacing workers, and only the dead are replaced.

    uvicorn kills workers that do not answer a ping within seconds, which on a busy machine are those that are starting.
    """

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes = [self._started() for _ in range(self.processes_num)]
        self._first = list(self.processes)

    def keep_subprocess_alive(self) -> None:
        """Start workers again that died; the service ends where one of the first could not start at all."""
        for place, worker in enumerate(self.processes):
            if self.should_exit.is_set() or worker.process.is_alive():
                continue
            if worker.exitcode == NOT_STARTED and worker in self._first:
                self.should_exit.set()
                return
            log.error("a worker died; another is started", extra={"pid": worker.pid, "exit_code": worker.exitcode})
            worker.join()
            self.processes[place] = self._started()

    def handle_hup(self) -> None:
        """Pass the signal on to every worker."""
        for worker in self.processes:
            if worker.pid is not None and worker.exitcode is None:
                os.kill(worker.pid, signal.SIGHUP)

    def _started(self) -> Process:
        worker = WorkerProcess(self.config, self.sockets)
        worker.start()
        return worker


def run(settings: Settings, *, host: str, port: int, workers: int = 1, access_log: bool = False) -> None:
    """Serve until told to stop; refuses a bad ranker file or a taken port before any worker starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HUP)
    note = CurrentCertificate(settings.ranker, trust_edited=settings.trust_edited).now.note
    _refuse_taken(host, port)
    if settings.log is not None:
        prepare(settings.log)
    dictConfig(LOGGING)
    if note.status != "valid":
        log.warning("nothing is promised", extra={"certificate": note.id, "order": note.order, "reason": note.reason})
    if workers == 1:
        serve_alone(_config(settings, host, port, 1, access_log))
    else:
        with tempfile.TemporaryDirectory(prefix="isrr-") as folder, open(Path(folder) / "supervisor", "wb") as held:
            hold(held.fileno())
            os.environ[FOLDER] = folder  # for the workers
            settings = replace(settings, supervisor=Path(held.name))
            supervise(_config(settings, host, port, workers, access_log))
    log.info("stopped", extra={"pid": os.getpid()})


def _refuse_taken(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        said = str(error.strerror).partition(" (")[0]
        raise ValueError(f"{host}, port {port}: cannot listen: {said}; choose another `host=` or `port=`") from None


def serve_alone(config: Config) -> None:
    """Serve in this process until told to stop.

    uvicorn raises the signals it was stopped by once more when it is done; its own handler, put in place of the
    system's, lets them pass.
    """
    server = Server(config)
    for told_to_stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told_to_stop, server.handle_exit)
    with suppress(SystemExit):  # NOT_STARTED
        server.run()
    if not server.started:
        sys.exit(1)  # the lines above say why


def supervise(config: Config) -> None:
    """Bind the port and keep the workers alive until told to stop.

    Connections inherit TCP_NODELAY from the listening socket; without it answers wait 40 ms for the client's delayed
    acknowledgement, as asyncio sets it only on sockets that name their protocol.
    """
    listening = config.bind_socket()
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    supervisor = Supervisor(config, sockets=[listening])
    supervisor.run()
    if any(worker.exitcode == NOT_STARTED for worker in supervisor.processes):
        sys.exit(1)  # the lines above say why


def _config(settings: Settings, host: str, port: int, workers: int, access_log: bool) -> Config:
    limits = {"header_timeout": settings.header_timeout, "send_timeout": settings.send_timeout}
    connection: Any = partial(PromptConnection, **limits)
    return Config(
        partial(create_app, settings), factory=True, host=host, port=port, workers=workers, log_config=LOGGING,
        access_log=access_log, timeout_graceful_shutdown=GRACE, server_header=False, http=connection,
        ws="none", lifespan="on",
    )  # fmt: skip
