"""Importing this imports all that a worker needs and loads its kernels; workers are forked from a process that did."""

import numpy as np

from isrr.ranker.gpl import GPLRanker
from isrr.serve import app as app
from isrr.serve.drift import Drift

for ranker in (GPLRanker(), GPLRanker(floor=0.5)):
    ranker.rank_with_propensity(np.array([1.0, 0.5, 0.5]), "q", "s", 1)
Drift(np.arange(5.0)).tally(np.array([1.0, 0.5, 0.5]))
