"""Real files, where they are: ../shared/data beside the checkout."""

from pathlib import Path

import pytest

REAL_DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def real_data():
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data sets are not at {REAL_DATA}")
    return REAL_DATA
