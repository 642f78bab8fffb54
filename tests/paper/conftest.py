"""Tests of scorers run on one thread each: small tensors, and cores that others may be using."""

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
