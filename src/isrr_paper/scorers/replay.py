"""Training steps on a GPU, recorded once per shape and replayed.

A step is some two hundred small operations, and a GPU is done with each before the host has asked for the next. The
first batch of a shape is taken operation by operation, the second is recorded as a CUDA graph, all later ones replay
it: one request to the device a step. Lists are padded to the next power of two, so that there are few shapes.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor

from isrr.data.queries import IntArray
from isrr_paper.scorers.batches import Batch, DeviceQueries

Shape = tuple[int, int]  # queries, longest list


class Replay:
    """Steps over batches of queries on a CUDA device, each in device operations alone, with noise from a generator."""

    def __init__(self, queries: DeviceQueries, step: Callable[[Batch], None], noise: Generator) -> None:
        self._queries = queries
        self._step = step
        self._noise = noise
        self._stream = torch.cuda.Stream(queries.device)  # type: ignore[no-untyped-call]
        self._memory = torch.cuda.graph_pool_handle()
        self._chosen: dict[Shape, Tensor] = {}
        self._graphs: dict[Shape, torch.cuda.CUDAGraph] = {}

    def steps(self, batch_queries: int, order: IntArray) -> Iterator[Callable[[], None]]:
        """Run the steps of an epoch over the queries in the given order."""
        firsts = np.arange(0, len(order), batch_queries)
        longest = np.maximum.reduceat(self._queries.lengths[order], firsts)
        on_device = torch.as_tensor(order).to(self._queries.device)
        for chosen, width in zip(torch.split(on_device, batch_queries), longest, strict=True):
            shape = len(chosen), min(1 << (int(width) - 1).bit_length(), int(self._queries.lengths.max()))
            yield partial(self._take, shape, chosen)

    def _take(self, shape: Shape, chosen: Tensor) -> None:
        if shape not in self._chosen:
            self._chosen[shape] = chosen.clone()
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                self._operations(shape)
            torch.cuda.current_stream().wait_stream(self._stream)
            return
        self._chosen[shape].copy_(chosen)
        if shape not in self._graphs:
            self._graphs[shape] = self._recorded(shape)
        self._graphs[shape].replay()

    def _recorded(self, shape: Shape) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._noise)
        with torch.cuda.graph(graph, pool=self._memory, stream=self._stream):
            self._operations(shape)
        return graph

    def _operations(self, shape: Shape) -> None:
        self._step(self._queries.padded(self._chosen[shape], shape[1]))
