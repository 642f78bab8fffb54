"""`python -m isrr …`, or a file of Python's, as a process of its own that has nothing left to load.

Loading takes a command a second or two, its work in the tests often a few hundredths. So one process loads everything
but `isrr.cli` and waits; every command is a fork of it. The fork has its own arguments, folder, environment and output,
loads the command line as `python -m isrr` does, and ends as a process ends. Where the start of a process is under test
(Ctrl-C while it loads, limits, permissions, no cache), start a new one: `subprocess.run([*ISRR, …])`.

A command that goes on beside the test, a service, is `Started`; what is forked for it waits for its end.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from importlib import import_module

ISRR = [sys.executable, "-m", "isrr"]
NO_PLACE = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []\n"  # for kernels on disk


def isrr(*arguments, cwd=None, env=None, timeout=300):
    """As `subprocess.run([*ISRR, *arguments], capture_output=True, text=True)`, from an empty standard input."""
    return run("isrr", *arguments, cwd=cwd, env=env, timeout=timeout)


def run(program, *arguments, cwd=None, env=None, timeout=300):
    """As `isrr`, for the command line or for a file of Python's."""
    command = [program, *map(str, arguments)]
    waiting, line = _loaded()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        socket.send_fds(line, [_asked(command, cwd, env)], [out.fileno(), err.fileno()])
        line.settimeout(timeout)
        try:
            code = json.loads(line.recv(100))
        except TimeoutError:
            os.killpg(waiting.pid, signal.SIGKILL)
            _loaded.cache_clear()
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


def _asked(command, cwd=None, env=None):
    return json.dumps(
        {"argv": command, "cwd": str(cwd or os.getcwd()), "env": dict(os.environ if env is None else env)}
    ).encode()


class Started:
    """As `subprocess.Popen([*ISRR, *arguments], stderr=PIPE, text=True, start_new_session=True)`, or `-c` and code."""

    def __init__(self, program, *arguments):
        self._line, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, writing = os.pipe()
        self.stderr = os.fdopen(reading, encoding="utf-8")
        with open(os.devnull, "w") as nowhere:
            files = [nowhere.fileno(), writing, there.fileno()]
            socket.send_fds(_loaded()[1], [_asked([program, *map(str, arguments)])], files)
        os.close(writing)
        there.close()
        self.pid, self.returncode = int(self._line.recv(100)), None

    def wait(self, timeout):
        if self.returncode is None:
            self._line.settimeout(timeout)
            self.returncode = int(self._line.recv(100))
            self._line.close()
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)


@cache
def _loaded():
    """The process that waits, and the line to it; it ends when this one does."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    single = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork has but the thread that forks
    waiting = subprocess.Popen([sys.executable, "-P", __file__], stdin=there, env=single, start_new_session=True)
    there.close()
    atexit.register(here.close)
    assert here.recv(100) == b"loaded"
    return waiting, here


def _load():
    """What commands import, and the kernels they share, on one thread."""
    product = ("isrr.reporting.made", "isrr.engines.source", "isrr.engines.rankings")
    for module in (*product, "rich.progress", "typer.main"):
        import_module(module)
    import numpy as np
    import typer

    import isrr
    from isrr.parallel import use_threads

    app = typer.Typer()
    app.command()(lambda: None)
    app([], standalone_mode=False)  # loads what typer loads late

    with use_threads(1):
        rng = np.random.default_rng(20230)
        scores, relevance = rng.normal(size=400), rng.choice(3, 400)
        judged = isrr.Queries.from_arrays(scores=scores, relevance=relevance, query_ids=np.arange(400) // 10)
        outcome = isrr.calibrate(judged, "ndcg@5 >= 10% of deterministic")
        isrr.check(outcome, judged)
        isrr.plan(judged[:20], "ndcg@5 >= 10% of deterministic")
        outcome.ranker.propensity(outcome.ranker.rank_queries(judged), judged)
    assert threading.active_count() == 1


def _wait(line):
    """Wait for commands; return in a fork that is to be the next one."""
    while True:
        asked, files, _, _ = socket.recv_fds(line, 1 << 20, 3)
        if not asked:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            if len(files) == 3:
                line.close()
                _stay_behind(files.pop())
            return json.loads(asked), files
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if len(files) == 2:
            line.send(str(code).encode())


def _stay_behind(there):
    """Leave a process that tells, over a line of its own, who the next one is and how it ends; return in that one."""
    if os.fork():
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        os.close(there)
        os.setsid()
        return
    with socket.socket(fileno=there) as line:
        line.send(str(pid).encode())
        os.closerange(0, there)
        os.closerange(there + 1, 1024)
        line.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _become(argv, cwd, env, files):
    """Take on what the caller of a command gives it."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate([nothing, *files]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    sys.path.insert(0, cwd if argv[0] in ("isrr", "-c") else os.path.dirname(argv[0]))
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = argv


def _end(code):
    """End as Python does, but leave the modules to the system: taking them down takes longer than most commands."""
    if isinstance(code, int | None):
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    raise SystemExit(code)


if __name__ == "__main__":
    _load()
    gc.collect()
    gc.freeze()  # a fork that ends need not look through what it never used
    with socket.socket(fileno=os.dup(0)) as _line:
        _line.send(b"loaded")
        _asked, _files = _wait(_line)
    _become(**_asked, files=_files)
    try:
        if sys.argv[0] == "isrr":
            runpy.run_module("isrr", run_name="__main__", alter_sys=True)
        elif sys.argv[0] == "-c":
            exec(sys.argv.pop(1), {"__name__": "__main__"})
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
        _end(0)
    except SystemExit as _stop:
        _end(_stop.code)
