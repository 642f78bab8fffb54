"""Discounts of the first places, held on the device: sending them at each step would make the host wait for it."""

from functools import lru_cache

import torch
from torch import Tensor

from isrr.gains import discount


def discounts(k: int, like: Tensor) -> Tensor:
    """θ of the first k places, (k,), in the precision and on the device of a tensor."""
    return _table(1 << max(6, (k - 1).bit_length()), like.dtype, like.device)[:k]


@lru_cache(maxsize=64)
def _table(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.as_tensor(discount(size), dtype=dtype, device=device)
