"""`isrr serve`: the app on granian, and the JSON lines it writes to standard error.

granian replaces workers that die, and ends the service when a new one dies within seconds; SIGHUP replaces workers one
by one. SIGTERM and Ctrl-C let requests in flight finish.
"""

import gc
import json
import logging
import os
import signal
import socket
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from logging.config import dictConfig
from pathlib import Path
from typing import Any

from granian import Granian
from granian.constants import Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from starlette.types import Receive, Scope, Send

from isrr.errors import CertificateError
from isrr.serve import create_app
from isrr.serve.writer import prepare

log = logging.getLogger("isrr.serve")
GRACE = 30  # seconds that requests in flight have to finish
HEADER_TIMEOUT = 10  # seconds that a client may take for the headers of a request
CONNECTIONS = 4_096  # of a worker; more wait


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and all of `extra`."""

    PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {"time": moment, "level": record.levelname.lower(), "logger": record.name}
        entry["message"] = record.getMessage()
        entry |= {name: value for name, value in vars(record).items() if name not in self.PLAIN}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "isrr.serve.command.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
        for name in ("isrr.serve", "_granian", "granian.access")
    },
}


def run(
    ranker: Path, *, host: str, port: int, workers: int = 1, access_log: bool = False, tls_cert: Path | None = None,
    tls_key: Path | None = None, **settings: Any,
) -> None:  # fmt: skip
    """Serve until told to stop; refuses a bad ranker file or a taken port before any worker starts.

    `settings` are those of `create_app`.
    """
    dictConfig(LOGGING)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until granian can answer it
    with ExitStack() as stack:
        reserved = stack.enter_context(_reserved(host, port))
        port = reserved.getsockname()[1]
        # prometheus_client looks at this variable when it is imported, which is not before create_app is.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="isrr-"))
        server = Granian(
            "isrr", host, port, interface=Interfaces.ASGI, workers=workers, websockets=False,
            backpressure=CONNECTIONS, http1_settings=HTTP1Settings(header_read_timeout=1_000 * HEADER_TIMEOUT),
            http2_settings=HTTP2Settings(max_headers_size=1 << 16), log_dictconfig=LOGGING,
            log_level=LogLevels.warning, log_access=access_log, ssl_cert=tls_cert, ssl_key=tls_key,
            ssl_protocol_min=SSLProtocols.tls12, respawn_failed_workers=True, workers_kill_timeout=GRACE,
        )  # fmt: skip
        server.on_startup(lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP}))
        app = create_app(ranker, **settings | {"log": None})  # workers inherit the kernels
        note = app.state.service.current.now.note
        if note.status != "valid":
            extra = {"certificate": note.id, "order": note.order, "reason": note.reason}
            log.warning("nothing is promised", extra=extra)
        if (folder := settings.get("log")) is not None:
            prepare(folder)
        scheme, name = "http" if tls_cert is None else "https", f"[{host}]" if ":" in host else host
        threading.Thread(target=_announce, args=(host, port, f"{scheme}://{name}:{port}"), daemon=True).start()
        server.serve(target_loader=partial(_load_worker, ranker, settings | {"parent": os.getpid()}))
    log.info("stopped", extra={"pid": os.getpid()})


def _load_worker(ranker: Path, settings: dict[str, Any], target: str) -> Any:
    """Return the app of a worker; a file that is damaged just now is tried again until it can be read."""
    for stop in (signal.SIGTERM, signal.SIGINT):  # what is inherited would wait for a loop that is none of ours
        signal.signal(stop, signal.SIG_DFL)
    while True:
        try:
            app = create_app(ranker, **settings)
            break
        except (CertificateError, OSError) as error:
            log.error("a worker cannot start yet; it will try again", extra={"error": str(error)})
            time.sleep(1.0)
    gc.collect()
    gc.freeze()  # what the imports left will live as long as the process: no need to walk it again
    straight = {(endpoint.method, endpoint.path): endpoint for endpoint in app.state.service.endpoints}

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what the app does; requests to its paths go straight to the endpoints, which are apps themselves."""
        await straight.get((scope.get("method"), scope.get("path")), app)(scope, receive, send)

    return serve


def _reserved(host: str, port: int) -> socket.socket:
    """Return a socket that keeps the port from others, and names it where any will do; each worker binds its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as free:  # refused where somebody listens
            port = free.getsockname()[1]
        reserved = socket.socket(family)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
        return reserved
    except OSError as error:
        said = str(error.strerror).partition(" (")[0]
        raise ValueError(f"{host}, port {port}: cannot listen: {said}; choose another `host=` or `port=`") from None


def _announce(host: str, port: int, url: str) -> None:
    """Say so once the port accepts connections."""
    while True:
        with suppress(OSError), socket.create_connection((host, port), 1):
            log.info(f"accepting requests on {url}")
            return
        time.sleep(0.02)
