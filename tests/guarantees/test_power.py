"""What each count of this folder would notice: `pytest -vv` lists the counts with their power against a level of 3δ."""

import pytest

from counts import COUNTS

pytestmark = pytest.mark.guarantee


@pytest.mark.parametrize("count", [pytest.param(count, id=f"{name}: {count}") for name, count in COUNTS.items()])
def test_a_level_of_three_times_delta_is_noticed(count):
    assert count.power >= 0.95
