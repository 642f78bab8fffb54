"""Which masters are asked for at all."""

import socket

import pytest

from isrr import EngineError
from isrr.engines.sessions import check_master


@pytest.mark.parametrize(
    "master", ["nonsense", "spark://host", "spark://host:port", "local[", "local[a]", "http://x:1"]
)
def test_what_names_no_master_is_refused_with_the_forms_there_are(master):
    with pytest.raises(EngineError, match=r"is no master of Spark; needed is one like local, .*spark://host:7077"):
        check_master(master)


@pytest.mark.parametrize(
    "master", [None, "local", "local[4]", "local[*]", "local[2, 3]", "yarn", "k8s://https://host:443"]
)
def test_masters_that_need_no_answer_yet_pass(master):
    check_master(master)


def test_a_standalone_master_must_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = "{}:{}".format(*server.getsockname())
        check_master(f"spark://{there}")
    with pytest.raises(EngineError, match=f"no Spark master answers at {there}"):
        check_master(f"spark://{there}")
