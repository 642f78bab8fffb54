"""The mixer is SplitMix64's, for arrays and in kernels alike."""

import numpy as np

from isrr.noise import GOLDEN, mix, mixed


def test_the_mixer_gives_the_published_numbers_of_splitmix64():
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # seed 0
    counters = np.arange(1, 4, dtype=np.uint64) * GOLDEN
    assert mixed(counters).tolist() == published
    assert [int(mix(counter)) for counter in counters] == published
