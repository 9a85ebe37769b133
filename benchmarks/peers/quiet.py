"""Is the machine quiet? A fixed piece of work on all cores at once, timed before and after a turn; a turn between slow ones is run again.

On a shared machine neighbours take the cores and the memory's bandwidth for seconds to minutes, and a turn that falls into such a time says nothing of the
contender. The judge never sees a contender's result, so it cannot prefer one.
"""

from __future__ import annotations

import multiprocessing
import os
import time

DIM, REPEATS, COPY_BYTES = 512, 12, 64 << 20


def _work(_: int) -> float:
    """Seconds for some products (the cores) and some copies larger than the caches (the memory)."""
    import torch

    torch.set_num_threads(1)
    one, many = torch.ones(DIM, DIM), torch.zeros(COPY_BYTES // 4)
    torch.mm(one, one), many.clone()
    began = time.perf_counter()
    for _ in range(REPEATS):
        torch.mm(one, one)
        many.clone()
    return time.perf_counter() - began


class Judge:
    """Keeps a process a core until close(). `tolerance` 0.1: up to a tenth above the best time seen is quiet."""

    def __init__(self, tolerance: float, most_repeats: int = 6, wait_s: float = 2.0) -> None:
        self.tolerance, self.most_repeats, self.repeated, self.disturbed = tolerance, most_repeats, 0, 0
        self._wait_s = wait_s
        self._pool = multiprocessing.get_context("spawn").Pool(os.cpu_count())
        self._best = min(self._measure() for _ in range(5))

    def _measure(self) -> float:
        return max(self._pool.map(_work, range(os.cpu_count()), chunksize=1))

    def is_quiet(self) -> bool:
        took = self._measure()
        self._best = min(self._best, took)
        return took <= self._best * (1 + self.tolerance)

    def run(self, turn):
        """turn()'s result, of a try with quiet before and behind it; of the last one where none was."""
        for _ in range(self.most_repeats):
            self._wait_for_quiet()
            result = turn()
            if self.is_quiet():
                return result
            self.repeated += 1
        self.disturbed += 1
        return result

    def _wait_for_quiet(self) -> None:
        for _ in range(30):
            if self.is_quiet():
                return
            time.sleep(self._wait_s)

    def said(self) -> str:
        return (f"A turn counts only where a fixed piece of work on all cores, before it and after it, took at most {1 + self.tolerance:.2f} of its best time "
                f"({self._best * 1e3:.0f} ms); {self.repeated} turns were run again for that, {self.disturbed} were kept though none of their {self.most_repeats} tries was quiet.")

    def close(self) -> None:
        self._pool.terminate()


class NoJudge:
    """Takes every turn."""

    def run(self, turn):
        return turn()

    def said(self) -> str:
        return ""

    def close(self) -> None:
        pass


def judge_for(tolerance: float | None):
    return NoJudge() if tolerance is None else Judge(tolerance)
