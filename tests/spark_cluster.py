"""A real Spark cluster on loopback, with two executors of one core each in processes of their own; tables for it."""

import os
import shutil
import sys
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LACKING = [name for name, there in (("pyspark", find_spec("pyspark")), ("java", shutil.which("java"))) if not there]
MASTER = "local-cluster[2,1,1024]"
DAEMON = """
import gc

import isrr
from isrr import spark
from pyspark import worker
from pyspark.daemon import manager

queries = isrr.Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[0, 1, 2], query_ids=["a"] * 3)
isrr.evaluate(queries, [isrr.GPLRanker()])
gc.freeze()
manager()
"""  # what forks Python workers has everything loaded, and none of it is looked through for garbage after each task
LIGHT = (  # Java that starts fast and computes little
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
INTERPRETED = {  # to interpret a plan for a few rows is less work than to compile it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def session(folder):
    """A session on such a cluster; stopped at the end."""
    import pyspark
    from pyspark.sql import SparkSession

    from isrr.spark import OURS

    home = folder / "home"  # executors write to a folder in there
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name not in ("work", "python"):  # the latter has PySpark in an archive, slow to import from
            (home / part.name).symlink_to(part)
    (folder / "modules").mkdir()
    (folder / "modules" / "loaded_daemon.py").write_text(DAEMON)
    here = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
    settings = {
        "spark.driver.extraJavaOptions": f"{LIGHT} {OURS['spark.driver.extraJavaOptions']}",
        "spark.executor.extraJavaOptions": LIGHT,
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": f"{folder / 'modules'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "spark.python.daemon.module": "loaded_daemon",
        "spark.local.dir": str(folder),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        **INTERPRETED,
    }
    with patch.dict(os.environ, here), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of a version of pandas that PySpark does not know
        started = SparkSession.builder.master(MASTER).config(map=settings).getOrCreate()
    yield started
    started.stop()


def judged(n_queries, n_items=8, seed=20230):
    """Rows with tied scores, text ids for items, and about one query in ten without a relevant item."""
    rng = np.random.default_rng(seed)
    n_rows = n_queries * n_items
    relevance = rng.choice(4, n_rows, p=[0.75, 0.15, 0.07, 0.03]).astype(float)
    return pa.table(
        {
            "query_id": np.repeat(np.arange(n_queries), n_items),
            "item_id": np.tile([f"d{i}" for i in range(n_items)], n_queries),
            "score": (relevance + rng.normal(scale=1.2, size=n_rows)).round(1),
            "relevance": relevance,
            "segment": np.repeat(rng.choice(["mobile", "desktop"], n_queries), n_items),
        }
    )


def write(table, folder, n_files, n_items=8):
    """Whole queries in each of so many files."""
    folder.mkdir()
    cuts = np.linspace(0, len(table) // n_items, n_files + 1).astype(int) * n_items
    for i, (start, stop) in enumerate(pairwise(cuts)):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{i:03}.parquet")
    return f"{folder}/*.parquet"


def broken(table, folder, change):
    """The table in two files, the second changed."""
    files = write(table, folder / "files", 2)
    second = folder / "files" / "part-001.parquet"
    pq.write_table(change(pq.read_table(second)), second)
    return files


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


def nan_deep_inside(table):
    scores = table["score"].to_numpy().copy()
    scores[1_003] = np.nan
    return with_column(table, "score", pa.array(scores))
