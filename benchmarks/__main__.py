"""`make bench`: every benchmark as a Markdown table, and as JSON in out/bench.json.

Numbers are ratios measured side by side in one run; only the ratios mean something on another machine.

    python -m benchmarks [ranking] [seconds] [letor] [runs] [calibration] [clicks] [report] [losses] [serving] [spark]
                         [--before COMMIT]

`--before` also runs each benchmark on an earlier commit, right after today's; a benchmark that the commit lacks is
copied there.
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

SUITES = ("ranking", "seconds", "letor", "runs", "calibration", "clicks", "report", "losses", "serving", "spark")


def main(wanted: list[str], before: str | None) -> None:
    found: dict[str, list[dict]] = {}
    with checked_out(before) as tree:
        for name in wanted or SUITES:
            found[name] = importlib.import_module(f"benchmarks.{name}").rows()
            earlier = {} if tree is None else rows_of(tree, name)
            print(f"\n### {name}\n\n| what | ours | beside | ratio | unit |{' before |' if earlier else ''}")
            print("|---|---|---|---|---|" + ("---|" if earlier else ""))
            for row in found[name]:
                row["before"] = earlier.get(row["what"])
                then = "" if not earlier else f" {row['before']:.4g} |" if row["before"] else " |"
                print(f"| {row['what']} | {row['ours']:.4g} | {row['baseline']:.4g} | {row['ratio']:.3g} |", end="")
                print(f" {row['unit']} |{then}", flush=True)
    out = Path("out")
    out.mkdir(exist_ok=True)
    machine = {"machine": platform.platform(), "processor": platform.processor(), "python": platform.python_version()}
    (out / "bench.json").write_text(json.dumps({**machine, **found}, indent=1))


@contextmanager
def checked_out(commit: str | None) -> Iterator[Path | None]:
    """A work tree of an earlier commit, as long as it is needed."""
    if commit is None:
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
    """What the earlier commit measured, by what was measured; nothing where its interface is another."""
    if not (tree / "benchmarks" / f"{name}.py").exists():
        shutil.copy(Path(__file__).with_name(f"{name}.py"), tree / "benchmarks")
    chosen = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name], cwd=tree, env=chosen, capture_output=True, text=True
    )
    if done.returncode != 0:
        print(f"{name}: not measured before: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    return {row["what"]: row["ours"] for row in json.loads((tree / "out" / "bench.json").read_text())[name]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--before", metavar="COMMIT")
    asked = parser.parse_args()
    main(asked.suites, asked.before)
