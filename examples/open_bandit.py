"""Real clicks: the sample of the Open Bandit Dataset inside the package obp, as a table of impressions.

An online shop showed items drawn uniformly at random in three slots, and logged clicks and propensities. Ten thousand
rows with 46 clicks are far too few to certify anything; this only shows how such a log is read.

    pip install --no-deps obp && python examples/open_bandit.py
"""

from importlib.metadata import files

import numpy as np
import pyarrow as pa
import pyarrow.csv

import isrr
from isrr.clicks.estimate import ITEM_POSITION, check_loggers, logged_placement
from isrr.clicks.impressions import Rules, impressions_of_table

held = {str(file): file.locate() for file in files("obp") or ()}  # read as plain files: obp itself is not imported
shown, items = (
    pyarrow.csv.read_csv(str(held[f"obp/dataset/obd/random/men/{name}.csv"])) for name in ("men", "item_context")
)
n_lists, n_items = shown.num_rows, items.num_rows

# Every slot of the page is a list of its own with one place. A row for each candidate, whether it was shown or not; as
# score we take the shop's first feature of the item, for want of a model.
row = np.repeat(np.arange(n_lists), n_items)
candidate = np.tile(items["item_id"].to_numpy(), n_lists)
here = candidate == shown["item_id"].to_numpy()[row]
table = pa.table(
    {
        "impression_id": row,
        "query_id": shown["position"].to_numpy()[row],
        "item_id": candidate,
        "score": np.tile(items["item_feature_0"].to_numpy(), n_lists),
        "position": np.where(here, 1.0, np.nan),
        "click": np.where(here, shown["click"].to_numpy()[row], 0),
    }
)

# The logger drew uniformly: Plackett–Luce, infinitely hot for all practical purposes.
logger = isrr.GPLRanker(k=1, temperature=1e7)
found = impressions_of_table(table, logger, Rules(k=1))
placed = logged_placement(found.loggers, found.logger_of, found.lists, 1)
print(f"{len(found):,} impressions with {found.n_clicks} clicks on {n_items} items in {len(found.lists)} slots")
print(
    f"propensities: the ranker's are off by {np.abs(placed - shown['propensity_score'][0].as_py()).max():.1g} at most"
)

rankers = [logger, isrr.GPLRanker(k=1, temperature=1.0), isrr.GPLRanker.deterministic(1)]
for name, clicks in zip(
    ("as logged", "at temperature 1", "by score"), ITEM_POSITION.estimate(found, rankers).values.T, strict=True
):
    print(f"clicks per list, {name}: {clicks.mean():.4f} ± {clicks.std() / np.sqrt(clicks.size):.4f}")

# A certificate would need a logger that serves the order by score with a fixed chance.
try:
    check_loggers(found)
except isrr.DataError as error:
    print(f"certificate: refused, {error}")
