"""The report of 200,000 queries: making it, against calibrating, and moving its slider in Chromium."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.calibration import PROMISE, hundred_temperatures, judged, peak_memory
from isrr import calibrate, load, report

N_MOVES = 300
SWITCHES = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
MOVE = """stop => new Promise(done => {
    const slider = document.getElementById("promise-slider");
    const start = performance.now();
    slider.value = stop;
    slider.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect(); // layout counts
    const answered = performance.now() - start;
    requestAnimationFrame(() => requestAnimationFrame(() => done(answered)));
})"""


def rows(n_queries: int = 200_000, n_items: int = 24) -> list[dict]:
    """Seconds, memory and bytes beside their limits; milliseconds of a slider move likewise."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calibrating, calibrating_memory = _in_a_process("calibrated", folder, n_queries, n_items)
        reporting, reporting_memory = _in_a_process("reported", folder, n_queries, n_items)
        size = (folder / "report.html").stat().st_size / 1e6
        moves = slider_moves(folder / "report.html")
    what = f"report on {n_queries:,} queries × {n_items} items × 100 configurations"
    found = [
        (f"{what}, against calibrating", reporting, calibrating, "s"),
        ("its peak memory, against calibrating", reporting_memory, calibrating_memory, "GiB"),
        ("its page, against a limit", size, 1.0, "MB"),
    ]
    kinds = {
        "answered": "a slider move, until answered and laid out",
        "processor": "its processor time to the next frame",
    }
    for kind, meaning in kinds.items():
        for summary in (np.median, np.max):
            label = f"{meaning}: {summary.__name__.removeprefix('a')} of {N_MOVES}, against a limit"
            found.append((label, float(summary(moves[kind])), 50.0, "ms"))
    return [{"what": w, "ours": o, "baseline": b, "ratio": b / o, "unit": u} for w, o, b, u in found]


def _in_a_process(step: str, folder: Path, n_queries: int, n_items: int) -> tuple[float, float]:
    code = f"from benchmarks.report import {step}; {step}({str(folder)!r}, {n_queries}, {n_items})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def calibrated(folder: str, n_queries: int, n_items: int) -> None:
    """Calibrate and save; prints seconds and peak memory in GiB."""
    queries = judged(n_queries, n_items)
    start = time.perf_counter()
    calibrate(queries, PROMISE, path=hundred_temperatures()).save(Path(folder, "ranker.json"))
    _print_cost(start)


def reported(folder: str, n_queries: int, n_items: int) -> None:
    """Write the page; prints seconds and peak memory in GiB."""
    queries, outcome = judged(n_queries, n_items), load(Path(folder, "ranker.json"))
    start = time.perf_counter()
    report(outcome, queries).save(Path(folder, "report.html"))
    _print_cost(start)


def _print_cost(start: float) -> None:
    print(time.perf_counter() - start, peak_memory())


def slider_moves(page: Path) -> dict[str, list[float]]:
    """Milliseconds of moves to random stops: until scripts and layout are done, and processor time to the next frame.

    The first includes whatever else keeps the machine busy; the second is the work of the page's own thread.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        complaints: list[str] = []
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(page.as_uri())
        protocol = tab.context.new_cdp_session(tab)
        protocol.send("Performance.enable", {"timeDomain": "threadTicks"})

        def busy() -> float:
            metrics = protocol.send("Performance.getMetrics")["metrics"]
            return 1e3 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

        last = int(tab.get_attribute("#promise-slider", "max") or 0)
        found: dict[str, list[float]] = {"answered": [], "processor": []}
        for stop in np.random.default_rng(20230).integers(0, last + 1, N_MOVES).tolist():
            before = busy()
            found["answered"].append(tab.evaluate(MOVE, stop))
            found["processor"].append(busy() - before)
        browser.close()
    assert not complaints, complaints
    return found


if __name__ == "__main__":  # python -m benchmarks.report report.html: the moves of a page at hand
    for kind, times in slider_moves(Path(sys.argv[1]).resolve()).items():
        print(json.dumps({kind: {"median": float(np.median(times)), "max": max(times), "moves": len(times)}}))
