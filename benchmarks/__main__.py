"""`make bench`: every benchmark as a Markdown table, and as JSON in out/bench.json.

Numbers are ratios measured side by side in one run; only the ratios mean something on another machine.

    python -m benchmarks [seconds] [calibration] [ranking] [serving] [runs] [clicks] [report] [--before COMMIT]

Each row stands beside a peer or a limit. Some have a floor as well: the least that could do the same, such as the
exponentials of all scores or the bytes that must be moved; *floors* says how many of them we take. The first four
benchmarks, what people wait for, also run on an earlier commit, right after today's. `--before` chooses another commit,
and the benchmarks named with it run on it; `--before ''` leaves it out.
"""

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMPARED = ("seconds", "calibration", "ranking", "serving")
SUITES = (*COMPARED, "runs", "clicks", "report")
BEFORE = "f18580f"  # the last commit with kernels in a cache of their own


def main(wanted: list[str], before: str) -> None:
    found: dict[str, list[dict]] = {}
    with checked_out(before) as tree:
        for name in wanted or SUITES:
            found[name] = importlib.import_module(f"benchmarks.{name}").rows()
            earlier = rows_of(tree, name) if tree is not None and name in (wanted or COMPARED) else {}
            print(f"\n### {name}\n\n| what | ours | before | unit | beside | ratio | floor | floors |")
            print("|---|---:|---:|---|---:|---:|---:|---:|")
            for row in found[name]:
                row["before"] = earlier.get(row["what"])
                floor = row.get("floor")
                numbers = [row["ours"], row["before"], row["unit"], row["baseline"], row["ratio"], floor]
                is_speed = "/s" in row["unit"]
                numbers.append(floor and (floor / row["ours"] if is_speed else row["ours"] / floor))
                cells = (("" if x is None else x if isinstance(x, str) else f"{x:.4g}") for x in numbers)
                print(f"| {row['what']} | {' | '.join(cells)} |", flush=True)
    out = Path("out")
    out.mkdir(exist_ok=True)
    machine = {"machine": platform.platform(), "processor": platform.processor(), "python": platform.python_version()}
    (out / "bench.json").write_text(json.dumps({**machine, **found}, indent=1))


@contextmanager
def checked_out(commit: str) -> Iterator[Path | None]:
    """A work tree of an earlier commit, as long as it is needed; None if there is no such commit."""
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True).returncode:
        if commit:
            print(f"commit {commit} is not in this clone: nothing to compare with", file=sys.stderr)
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], check=True, capture_output=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)


def rows_of(tree: Path, name: str) -> dict[str, float]:
    """What the earlier commit takes, by what is measured: by today's benchmarks, or by its own if those fail there."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    shutil.copytree(Path(__file__).parent, tree / "benchmarks", dirs_exist_ok=True)
    for arguments in ([name, "--before", ""], [name]):
        command = [sys.executable, "-m", "benchmarks", *arguments]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            measured = json.loads((tree / "out" / "bench.json").read_text())[name]
            return {row["what"]: row["ours"] for row in measured}
        subprocess.run(["git", "checkout", "--quiet", "--", "benchmarks"], cwd=tree, check=True)
    print(f"{name}: not measured before: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--before", metavar="COMMIT", default=BEFORE)
    asked = parser.parse_args()
    main(asked.suites, asked.before)
