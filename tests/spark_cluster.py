"""A real Spark cluster on loopback: a driver, and two executors of one core each, processes of their own."""

import os
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

LACKING = [name for name, there in (("pyspark", find_spec("pyspark")), ("java", shutil.which("java"))) if not there]
MASTER = "local-cluster[2,1,1024]"
LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"  # Java that starts fast and computes little


def session(folder):
    """A session on such a cluster."""
    from pyspark.sql import SparkSession

    from isrr.engines.cluster import QUIET, pandas_unmentioned

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.driver.extraJavaOptions": f"{LIGHT} -Dlog4j2.configurationFile={QUIET}",
        "spark.executor.extraJavaOptions": LIGHT,
        "spark.executor.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
    }
    with pandas_unmentioned():
        return SparkSession.builder.master(MASTER).config(map=settings).getOrCreate()


def wait_for(holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "nothing came up in time"
        time.sleep(0.2)


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
