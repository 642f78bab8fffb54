"""The exposure ledger: what each item and each group has been given, and what it had earned, over the served log.

Every served list of a judged query gives exposure θ_rank to the items it shows, and credits every judged candidate with
its gain. Exposure is fair in the long run when the two are proportional; the ledger's disparity is the share of all
exposure that would have to move for that, ½ Σ |e / Σe − g / Σg|, from 0 to 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from isrr.data.formats import write_table
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError
from isrr.gains import Gain, discount, gain_of
from isrr.monitor.judgments import need_item_ids

N_MOMENTS = 60


@dataclass(frozen=True, eq=False)
class Account:
    """Exposure and gain of each name (an item, or a group), and their disparity over time.

    Attributes:
        names: Items or groups, by falling exposure.
        exposure: Discounts collected, one per name.
        gain: Gain credited, one per name.
        moments: Times of the points below, seconds since 1970.
        disparity: Share of exposure at the wrong position, cumulated up to each moment.
    """

    names: tuple[str, ...]
    exposure: FloatArray
    gain: FloatArray
    moments: FloatArray
    disparity: FloatArray

    def __str__(self) -> str:
        lines = [f"{'':24} {'exposure':>10} {'share':>7} {'earned':>7}"]
        shares, earned = _shares(self.exposure), _shares(self.gain)
        for i in range(min(len(self.names), 20)):
            lines.append(f"{self.names[i]:24.24} {self.exposure[i]:10.2f} {shares[i]:7.2%} {earned[i]:7.2%}")
        if len(self.names) > 20:
            lines.append(f"… and {len(self.names) - 20:,} more")
        lines.append(f"disparity: {self.disparity[-1]:.2%} of the exposure would have to move")
        return "\n".join(lines)


def ledger(
    served: Iterable[Mapping[str, Any]], judgments: Queries, *, gain: Gain = "exponential"
) -> dict[str, Account]:
    """Return the account of items, as "item", and of groups, as "group", where the judgments name them.

    Args:
        served: Lines of the served-ranking log.
        judgments: Judged candidates, with item ids, and the items' groups where there are any.
        gain: "exponential", "linear", "equal" or a function of the grades.
    """
    names, item_of_row = np.unique(need_item_ids(judgments).astype(str), return_inverse=True)
    item_of = {name: i for i, name in enumerate(names.tolist())}
    query_of = {str(query): q for q, query in enumerate(judgments.query_ids)}
    gains = gain_of(judgments.need_relevance(), gain)
    lines = sorted((line for line in served if str(line["query_id"]) in query_of), key=lambda line: line["time"])
    if not lines:
        raise DataError("no served list belongs to a judged query, so there is nothing to show")
    ends = np.unique(np.linspace(0, len(lines), min(N_MOMENTS, len(lines)) + 1).astype(int)[1:])
    exposure, credit = np.zeros((2, ends.size, names.size))
    for i, moment in enumerate(np.searchsorted(ends, np.arange(len(lines)), "right").tolist()):
        line = lines[i]
        shown = discount(line["first_rank"] + len(line["items"]) - 1)[line["first_rank"] - 1 :]
        for weight, item in zip(shown, line["items"], strict=True):
            if str(item) in item_of:
                exposure[moment, item_of[str(item)]] += weight
        if line["first_rank"] == 1:
            query = query_of[str(line["query_id"])]
            rows = slice(judgments.offsets[query], judgments.offsets[query + 1])
            np.add.at(credit[moment], item_of_row[rows], gains[rows])
    if not exposure.any():
        raise DataError("no item of a served list is judged, so there is nothing to show")
    exposure, credit = exposure.cumsum(axis=0), credit.cumsum(axis=0)
    moments = np.array([lines[end - 1]["time"] for end in ends])
    accounts = {"item": _account(names, exposure, credit, moments)}
    if judgments.item_groups is not None:
        groups, group_of_row = judgments.coded_groups
        group_of_item = np.zeros(names.size, np.int64)
        group_of_item[item_of_row] = group_of_row

        def pooled(values: FloatArray) -> FloatArray:
            return np.stack([np.bincount(group_of_item, row, groups.size) for row in values])

        accounts["group"] = _account(groups, pooled(exposure), pooled(credit), moments)
    return accounts


def write_ledger(accounts: Mapping[str, Account], file: str | PathLike[str]) -> None:
    """Write all accounts as one Parquet table: kind, name, exposure, gain, and their shares."""
    tables = [
        pyarrow.table(
            {
                "kind": [kind] * len(account.names),
                "name": account.names,
                "exposure": account.exposure,
                "gain": account.gain,
                "exposure_share": _shares(account.exposure),
                "gain_share": _shares(account.gain),
            }
        )
        for kind, account in accounts.items()
    ]
    write_table(pyarrow.concat_tables(tables), Path(file), "parquet")


def _account(names: Any, exposure: FloatArray, credit: FloatArray, moments: FloatArray) -> Account:
    """Return the account of what was given and credited up to each moment, (n_moments, n_names)."""
    disparity = 0.5 * np.abs(_shares(exposure) - _shares(credit)).sum(axis=1)
    order = np.argsort(-exposure[-1], kind="stable")
    return Account(tuple(names[order].tolist()), exposure[-1, order], credit[-1, order], moments, disparity)


def _shares(values: FloatArray) -> FloatArray:
    """Return values as shares of their sum, which are equal where there is nothing to share."""
    total = values.sum(axis=-1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 1.0 / values.shape[-1])
