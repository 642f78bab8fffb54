"""Processes: one worker, or a supervisor over several.

The supervisor starts a worker again when it dies and passes SIGHUP on, at which each worker reloads the certificate in
place. SIGTERM and Ctrl-C let requests in flight finish.
"""

import logging
import os
import signal
import tempfile
from dataclasses import replace
from functools import partial

from uvicorn import Config, Server
from uvicorn.supervisors import Multiprocess

from isrr.serve.current import CurrentCertificate
from isrr.serve.logs import LOGGING
from isrr.serve.settings import Settings

log = logging.getLogger("isrr.serve")
GRACE = 30  # seconds that requests in flight have to finish


class Supervisor(Multiprocess):
    """uvicorn's supervisor; SIGHUP reloads certificates instead of replacing workers."""

    def handle_hup(self) -> None:
        """Pass the signal on to every worker."""
        for worker in self.processes:
            if worker.pid is not None and worker.exitcode is None:
                os.kill(worker.pid, signal.SIGHUP)


def run(settings: Settings, *, host: str, port: int, workers: int = 1, access_log: bool = False) -> None:
    """Serve until told to stop; refuses a ranker file that cannot be loaded before any worker starts."""
    CurrentCertificate(settings.ranker, trust_edited=settings.trust_edited)
    if workers == 1:
        Server(_config(settings, host, port, 1, access_log)).run()
        return
    with tempfile.TemporaryDirectory(prefix="isrr-metrics-") as shared:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared
        config = _config(replace(settings, supervisor=os.getpid()), host, port, workers, access_log)
        Supervisor(config, sockets=[config.bind_socket()]).run()


def _config(settings: Settings, host: str, port: int, workers: int, access_log: bool) -> Config:
    return Config(
        partial(_app, settings), factory=True, host=host, port=port, workers=workers, log_config=LOGGING,
        access_log=access_log, timeout_graceful_shutdown=GRACE, server_header=False,
    )  # fmt: skip


def _app(settings: Settings) -> object:
    from isrr.serve.app import create_app  # in the worker: metrics look at the environment when they are imported

    return create_app(settings)
