"""Spark sessions that isrr starts itself: what is refused before, what is said, and that nothing is left behind."""

import signal
import socket
import subprocess
import sys
import time

import pytest

import spark_cluster
from isrr import EngineError
from isrr.engines.cluster import check_master
from spark_cluster import broken, judged, nan_deep_inside, write

PROMISE = "ndcg@5 >= 90% of deterministic"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(bool(spark_cluster.LACKING), reason=f"not installed: {', '.join(spark_cluster.LACKING)}"),
]


def test_masters_that_are_none_or_do_not_answer_are_refused_before_java_starts():
    check_master("local[2]")
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = "{}:{}".format(*server.getsockname())
        check_master(f"spark://{there}")
        check_master(f"spark://127.0.0.1:no,{there}")
    with pytest.raises(EngineError, match=f"no Spark master answers at {there}"):
        check_master(f"spark://{there}")
    with pytest.raises(EngineError, match=r"'nonsense' is not a Spark master; expected something like local\[4\]"):
        check_master("nonsense")


def test_java_ends_with_a_command_that_is_interrupted_while_it_starts(tmp_path):
    files = write(judged(60), tmp_path / "files", 1)
    line = [sys.executable, "-m", "isrr", "calibrate", files, "-p", PROMISE, "-o", str(tmp_path / "no.json")]
    started = subprocess.Popen(
        [*line, "--engine", "spark", "--master", "local[1]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    spark_cluster.wait_for(lambda: spark_cluster.children([started.pid]))
    for _ in range(3):
        started.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, said = started.communicate(timeout=120)  # returns when no process holds the pipes
    assert started.returncode in (130, -signal.SIGINT)  # the latter where the last one came while Python ended
    assert [line for line in said.splitlines() if "incubator" not in line] == [
        "isrr: interrupted; files are as they were"
    ]


def test_a_session_of_its_own_tells_of_bad_rows_in_one_line(tmp_path):
    files = broken(judged(600), tmp_path, nan_deep_inside)
    line = [sys.executable, "-m", "isrr", "calibrate", files, "-p", PROMISE, "-o", str(tmp_path / "no.json")]
    done = subprocess.run(
        [*line, "--engine", "spark", "--master", "local[1]"],
        capture_output=True,
        text=True,
        timeout=600,
        env=spark_cluster.light_defaults(tmp_path),
    )
    assert done.returncode == 2
    (said,) = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert said.startswith("isrr: ")
    assert "part-001.parquet" in said
    assert "query '425'" in said
    assert not (tmp_path / "no.json").exists()
