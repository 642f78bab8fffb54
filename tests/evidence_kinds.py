"""Every kind of evidence and selection, by name: those of the product and those of the paper."""

from isrr.risk import evidence, select
from isrr_paper.further_evidence import BONFERRONI, EVIDENCE, POINTWISE

KINDS = {kind.name: kind for kind in (*evidence.NAMED.values(), *EVIDENCE)}
VALID = {name: kind for name, kind in KINDS.items() if not kind.caveat}
SELECTIONS = {kind.name: kind.survivors for kind in (*select.NAMED.values(), BONFERRONI, POINTWISE)}
