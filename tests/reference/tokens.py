"""The token stream of `weft train --data random` and of corpus windows, as weft/data/counter_rng.h defines it."""

from __future__ import annotations

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draws(seed: int, step: int, micro_batch: int, count: int) -> np.ndarray:
    """`count` 64-bit numbers that depend on (seed, step, micro-batch index) alone."""
    with np.errstate(over="ignore"):
        key = np.array([seed], dtype=np.uint64)
        for part in (step, micro_batch):
            key = _mix(key + _GOLDEN + np.uint64(part))
        return _mix(key + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64))


def below(numbers: np.ndarray, limit: int) -> np.ndarray:
    """Scales 64-bit numbers to [0, limit) by the high half of the product."""
    return np.array([(int(n) * limit) >> 64 for n in numbers], dtype=np.int64)


def random_batch(seed: int, step: int, micro_batch: int, rows: int, seq: int, vocab: int) -> np.ndarray:
    """[rows, seq + 1] tokens: columns 0..seq-1 are the input, 1..seq the targets."""
    return below(draws(seed, step, micro_batch, rows * (seq + 1)), vocab).reshape(rows, seq + 1)
