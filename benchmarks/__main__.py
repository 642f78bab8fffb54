"""`make bench`: every benchmark as a Markdown table, and as JSON in out/bench.json.

Numbers are ratios measured side by side in one run; only the ratios mean something on another machine.

    python -m benchmarks [ranking] [letor] [runs] [calibration] [clicks] [report] [losses] [serving] [spark]
"""

import importlib
import json
import platform
import sys
from pathlib import Path

SUITES = ("ranking", "letor", "runs", "calibration", "clicks", "report", "losses", "serving", "spark")


def main(wanted: list[str]) -> None:
    found: dict[str, list[dict]] = {}
    for name in wanted or SUITES:
        found[name] = importlib.import_module(f"benchmarks.{name}").rows()
        print(f"\n### {name}\n\n| what | ours | beside | ratio | unit |\n|---|---|---|---|---|")
        for row in found[name]:
            print(f"| {row['what']} | {row['ours']:.4g} | {row['baseline']:.4g} | {row['ratio']:.3g} | {row['unit']} |")
        sys.stdout.flush()
    out = Path("out")
    out.mkdir(exist_ok=True)
    machine = {"machine": platform.platform(), "processor": platform.processor(), "python": platform.python_version()}
    (out / "bench.json").write_text(json.dumps({**machine, **found}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
