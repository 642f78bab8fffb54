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

from isrr.data.files import write_table
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
        disparity: Share of exposure in the wrong place, cumulated up to each moment.
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
) -> tuple[Account, Account | None]:
    """Return the accounts of items and, where the judgments name them, of groups.

    Args:
        served: Lines of the served-ranking log.
        judgments: Judged candidates, with item ids, and the items' groups where there are any.
        gain: "exponential", "linear", "equal" or a function of the grades.
    """
    names, item_of_row = np.unique(need_item_ids(judgments).astype(str), return_inverse=True)
    row_of = {name: i for i, name in enumerate(names.tolist())}
    query_of = {str(query): q for q, query in enumerate(judgments.query_ids)}
    gains = gain_of(judgments.need_relevance(), gain)
    lines = sorted((line for line in served if str(line["query_id"]) in query_of), key=lambda line: line["time"])
    if not lines:
        raise DataError("no served list belongs to a judged query, so there is nothing to show")
    checkpoints = np.unique(np.linspace(0, len(lines), min(N_MOMENTS, len(lines)) + 1).astype(int)[1:])
    exposure, credit = np.zeros(names.size), np.zeros(names.size)
    states, due = [], set(checkpoints.tolist())
    for number, line in enumerate(lines, 1):
        shown = discount(line["first_rank"] + len(line["items"]) - 1)[line["first_rank"] - 1 :]
        for weight, item in zip(shown, line["items"], strict=True):
            if str(item) in row_of:
                exposure[row_of[str(item)]] += weight
        if line["first_rank"] == 1:
            query = query_of[str(line["query_id"])]
            rows = slice(judgments.offsets[query], judgments.offsets[query + 1])
            np.add.at(credit, item_of_row[rows], gains[rows])
        if number in due:
            states.append((exposure.copy(), credit.copy()))
    if not exposure.any():
        raise DataError("no item of a served list is judged, so there is nothing to show")
    moments = np.array([lines[number - 1]["time"] for number in checkpoints])
    items = _account(names, states, moments)
    if judgments.item_groups is None:
        return items, None
    groups, group_of_row = judgments.coded_groups
    group_of_item = np.zeros(names.size, np.int64)
    group_of_item[item_of_row] = group_of_row

    def pooled(values: FloatArray) -> FloatArray:
        return np.bincount(group_of_item, values, groups.size).astype(np.float64)

    return items, _account(groups, [(pooled(e), pooled(g)) for e, g in states], moments)


def write_ledger(items: Account, groups: Account | None, file: str | PathLike[str]) -> None:
    """Write both accounts as one Parquet table: kind, name, exposure, gain, and their shares."""
    accounts = [("item", items), *([] if groups is None else [("group", groups)])]
    columns: dict[str, Any] = {
        "kind": [kind for kind, account in accounts for _ in account.names],
        "name": [name for _, account in accounts for name in account.names],
        "exposure": np.concatenate([account.exposure for _, account in accounts]),
        "gain": np.concatenate([account.gain for _, account in accounts]),
        "exposure_share": np.concatenate([_shares(account.exposure) for _, account in accounts]),
        "gain_share": np.concatenate([_shares(account.gain) for _, account in accounts]),
    }
    write_table(pyarrow.table(columns), Path(file), "parquet")


def _account(names: Any, states: list[tuple[FloatArray, FloatArray]], moments: FloatArray) -> Account:
    disparity = np.array([0.5 * np.abs(_shares(e) - _shares(g)).sum() for e, g in states])
    exposure, credit = states[-1]
    order = np.argsort(-exposure, kind="stable")
    return Account(tuple(names[order].tolist()), exposure[order], credit[order], moments, disparity)


def _shares(values: FloatArray) -> FloatArray:
    total = values.sum()
    return values / total if total > 0 else np.full(values.size, 1.0 / values.size)
