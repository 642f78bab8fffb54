"""The README's example runs as it stands, and no link in README or docs points nowhere."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isrr import Queries, write_queries

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_s_ten_lines_run(tmp_path):
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, 6_000, p=[0.5, 0.3, 0.15, 0.05])
    scores = relevance + rng.normal(scale=1.2, size=relevance.size)
    judged = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=np.repeat(np.arange(400), 15))
    write_queries(judged, tmp_path / "judged.parquet")
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Certificate ")
    assert (tmp_path / "ranker.json").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target and not target.startswith("#"):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"
