"""What several tests share: queries, a browser, freshly compiled kernels."""

import gc
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import isrr
from isrr import Queries
from isrr.data.synthetic import generate
from isrr.parallel import available_cores
from serving import client_of

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SWITCHES = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
LONGEST = (
    "test_spark.py", "test_docs.py", "test_whole_procedure.py", "test_server.py", "test_cluster.py", "test_package.py",
    "test_refusals.py", "guarantees/test_calibration.py", "test_explorer.py", "test_commands.py", "report/test_page.py",
    "test_end_to_end.py", "test_odd_scores.py", "test_click_levels.py", "test_net.py", "test_shell.py",
    "test_damaged.py", "test_plan.py",
)  # fmt: skip


def pytest_xdist_auto_num_workers(config):
    """One process more than there are cores: many tests wait for a browser, a service or Java."""
    return available_cores() + 1


def pytest_configure(config):
    """Compile what most tests need before several processes do so, each for itself."""
    from isrr.cli.kernels import compile_all, compiles_anew

    if getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput"):
        if compiles_anew():
            compile_all()


def pytest_collection_modifyitems(items):
    """The longest files first, so that no process is left alone with one of them in the end."""
    rank = {name: position for position, name in enumerate(LONGEST)}
    items.sort(
        key=lambda item: min((rank[name] for name in LONGEST if str(item.path).endswith(name)), default=len(rank))
    )


def pytest_collection_finish():
    """What the imports left will live as long as the process: no need to look through it for garbage again."""
    gc.collect()
    gc.freeze()


def drop_stale_kernels():
    """Numba caches a kernel by its own file; one that inlines another file's changed kernel must go too."""
    source = Path(isrr.__file__).parent
    cached = list(source.rglob("__pycache__/*.nb[ic]"))
    newest = max(file.stat().st_mtime for file in source.rglob("*.py") if "@kernel" in file.read_text())
    with suppress(FileNotFoundError):  # another process drops them at the same time
        if all(file.stat().st_mtime >= newest for file in cached):
            return
    for file in cached:
        file.unlink(missing_ok=True)


drop_stale_kernels()


@pytest.fixture(autouse=True, scope="module")
def ctrl_c_interrupts():
    """A job started in the background ignores Ctrl-C, and so would everything started here; Spark puts in a handler."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def real_data():
    """Real files, where they are: ../shared/data beside the checkout."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data sets are not at {REAL_DATA}")
    return REAL_DATA


@pytest.fixture(scope="session")
def many_queries():
    """2,000 judged queries of 1 to 40 items, about 40,000 rows: enough for several blocks."""
    rng = np.random.default_rng(20230)
    sizes = rng.integers(1, 41, 2_000)
    relevance = rng.choice(5, sizes.sum(), p=[0.5, 0.2, 0.15, 0.1, 0.05])
    scores = 0.6 * relevance + rng.normal(size=relevance.size)
    return Queries.from_arrays(scores=scores, relevance=relevance, group=sizes)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield running
        running.close()


def calibrated(promise):
    generated = generate("small", n_queries=1_000, seed=0)
    weights, *_ = np.linalg.lstsq(generated.train.features, generated.train.queries.relevance, rcond=None)
    judged = generated.test.queries.with_scores(generated.test.features @ weights)
    return isrr.calibrate(judged, promise, path="temperature")


@pytest.fixture(scope="session")
def certificate():
    """A certificate on synthetic queries, as the service and the monitor read it."""
    return calibrated("ndcg@5 >= 90% of deterministic")


@pytest.fixture(scope="session")
def other_certificate():
    return calibrated("ndcg@5 >= 80% of deterministic")


@pytest.fixture(scope="session")
def abstention():
    return calibrated("ndcg@5 >= 0.99")


@pytest.fixture
def ranker_file(certificate, tmp_path):
    certificate.save(tmp_path / "ranker.json")
    return tmp_path / "ranker.json"


@pytest.fixture
def client(ranker_file):
    """A client of an app of its own."""
    return client_of(ranker_file)
