"""What several tests share: queries, a browser, freshly compiled kernels."""

import shutil
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import isrr
from isrr import Queries

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SWITCHES = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def drop_stale_kernels():
    """Numba caches a kernel by its own file; one that inlines another file's changed kernel must go too."""
    source = Path(isrr.__file__).parent
    cached = list(source.rglob("__pycache__/*.nb[ic]"))
    newest = max(file.stat().st_mtime for file in source.rglob("*.py"))
    with suppress(FileNotFoundError):  # another process drops them at the same time
        if all(file.stat().st_mtime >= newest for file in cached):
            return
    for file in cached:
        file.unlink(missing_ok=True)


drop_stale_kernels()


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_interrupts():
    """A job started in the background ignores Ctrl-C, and so would everything that is started here."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
