"""No judgments, only traffic: explore a little, certify by clicks, confirm by a rollout, and watch.

Users are simulated. In production a service draws the lists (`isrr serve --log`), and your front end sends the clicks.
"""

import tempfile
from pathlib import Path

import msgspec
import numpy as np

import isrr
from isrr.clicks.click_table import read_clicks
from isrr.clicks.rollout import Rollout
from isrr.clicks.sessions import Sessions
from isrr.clicks.simulate import Users, simulate
from isrr.clicks.steps import confirmed, decide_step

rng = np.random.default_rng(20230)
relevance = rng.choice(3, 300 * 15, p=[0.6, 0.3, 0.1])  # known to the simulated users alone
queries = isrr.Queries.from_arrays(
    scores=0.7 * relevance + rng.normal(size=relevance.size),
    relevance=relevance,
    query_ids=np.repeat([f"query {i}" for i in range(300)], 15),
    item_ids=np.tile([f"item {i}" for i in range(15)], 300),
)
folder = Path(tempfile.mkdtemp())

# 1. A ranker that explores: certain to keep 90 % of NDCG on every query, without a label. It serves the order by score
#    4 times out of 5, and draws mildly otherwise.
explorer = isrr.start(queries, "ndcg@5 >= 90% of deterministic", explore=True)
print(explorer, end="\n\n")

# 2. Its lists, and the clicks on them.
log, clicks = simulate(queries, explorer.ranker, 100_000, Users(), seed=1).save(folder, explorer.id)

# 3. The fairest ranker that keeps 95 % of the clicks. Every tenth list stays in the order by score, to compare with.
outcome = isrr.calibrate_clicks(
    clicks, "clicks@5 >= 95% of deterministic", log=log, logger=explorer, within=3600, anchor=0.1
)
print(outcome, end="\n\n")

# 4. A rollout against control assumes only independent sessions, and later ones like these. Here is the second of its
#    steps, decided after eight days.
rollout = Rollout.begin(outcome)
rollout = msgspec.structs.replace(rollout, steps=rollout.steps[1:2])
treatment = simulate(queries, rollout.ranker(outcome), 60_000, Users(), seed=2)
control = simulate(queries, isrr.GPLRanker(anchor=1.0), 60_000, Users(), seed=2)
treated = np.array([rollout.treated(session) for session in range(60_000)])
same = (treatment.rankings == control.rankings).all(axis=1)
seen = np.where(treated, treatment.clicked.sum(axis=1), control.clicked.sum(axis=1)).astype(float)
sessions = Sessions(treated, same, seen, starts=np.arange(60_000) * 10.0)
progress = decide_step(outcome, rollout, sessions, now=8 * 86_400)
print(progress, end="\n\n")
if progress.rollout.stage == "done":
    print(confirmed(outcome, progress), end="\n\n")

# 5. And the watch, by clicks alone.
log, clicks = simulate(queries, outcome.ranker, 30_000, Users(), seed=3).save(folder, outcome.id)
watch = isrr.Monitor(outcome)
watch.update_clicks(log, read_clicks(clicks), now=1e9)
print(watch)
