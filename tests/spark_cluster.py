"""A real standalone Spark cluster on loopback: a master and two workers, one core each."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import isrr

LACKING = [name for name, there in (("pyspark", find_spec("pyspark")), ("java", shutil.which("java"))) if not there]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def cluster(folder, n_workers=2, cores=1):
    """Start it, wait until all workers have registered, give the master's address; stop it at the end."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PYTHONPATH": str(Path(isrr.__file__).parents[1]),
        "PYSPARK_PYTHON": sys.executable,
    }
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    log = (folder / "cluster.log").open("wb")

    def start(what, *arguments):
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{what}", "--host", "127.0.0.1", *arguments]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    started = [start("master.Master", "--port", str(port), "--webui-port", str(page))]
    try:
        for worker in range(n_workers):
            place = ["--work-dir", str(folder / f"worker-{worker}"), "--webui-port", str(free_port())]
            started.append(start("worker.Worker", *place, "--cores", str(cores), "--memory", "2g", master))
        wait_for(lambda: status(page).get("aliveworkers") == n_workers)
        yield master
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(30)
        log.close()


def status(page):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return {}


def wait_for(holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the cluster did not come up"
        time.sleep(0.2)


def session(master, folder):
    """A session on the cluster, with one executor a worker."""
    from pyspark.sql import SparkSession

    from isrr.engines.sessions import pandas_unmentioned

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
    }
    with pandas_unmentioned():
        return SparkSession.builder.master(master).config(map=settings).getOrCreate()


def executors(application):
    """Process ids of an application's executors."""
    return [pid for pid, command in commands() if "CoarseGrainedExecutorBackend" in command and application in command]


def python_workers(application):
    """Process ids of the Python workers that its executors have forked."""
    daemons = [pid for pid in children(executors(application))]
    return children(daemons)


def commands():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue


def children(parents):
    found = []
    for pid, _ in commands():
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent in parents:
            found.append(pid)
    return found
