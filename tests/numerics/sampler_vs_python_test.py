"""The sampler against torch.utils.data.DistributedSampler: the same indices in the same order for every rank."""

from __future__ import annotations

import random
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")

from torch.utils.data.distributed import DistributedSampler  # noqa: E402

SIZES = [1, 2, 3, 5, 8, 17, 64, 100, 1001]
WORLDS = [1, 2, 3, 4, 7, 8, 16, 65]


def python_order(num_samples: int, world: int, rank: int, seed: int, epoch: int, shuffle: int, drop_last: int) -> list[int]:
    sampler = DistributedSampler(range(num_samples), world, rank, bool(shuffle), seed, bool(drop_last))
    sampler.set_epoch(epoch)
    return list(sampler)


def cpp_orders(build_dir, cases: list[tuple[int, ...]]) -> list[list[int]]:
    lines = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    done = subprocess.run([build_dir / "bin" / "data_sampler_order"], input=lines, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


def all_cases() -> list[tuple[int, ...]]:
    """Every size with every world and both ways to end; a rank, a seed and an epoch drawn for each, small and large."""
    rng = random.Random(1)
    cases = []
    for size in SIZES:
        for world in WORLDS:
            for drop_last in (0, 1):
                if drop_last and world > size:
                    continue  # torch gives nobody anything; we refuse
                seed = rng.choice([0, 1, 42, 2**31, 2**32 + 5, 2**62])
                cases += [(size, world, rng.randrange(world), seed, rng.choice([0, 1, 7, 10**6]), shuffle, drop_last) for shuffle in (0, 1, 1)]
    return cases + [(300_000, 8, rank, 3, 2, 1, 0) for rank in range(8)]


def test_every_rank_takes_the_same_indices(build_dir):
    cases = all_cases()
    ours = cpp_orders(build_dir, [case + (0,) for case in cases])
    assert len(ours) == len(cases) > 300
    for case, indices in zip(cases, ours):
        assert indices == python_order(*case), case


def test_resumed_ranks_take_the_rest(build_dir):
    cases = [case for case in all_cases() if case[0] <= 1001]
    taken = [random.Random(i).randint(0, len(python_order(*case))) for i, case in enumerate(cases)]
    ours = cpp_orders(build_dir, [case + (count * case[1],) for case, count in zip(cases, taken)])
    for case, count, indices in zip(cases, taken, ours):
        assert indices == python_order(*case)[count:], (case, count)


def test_another_epoch_is_another_order(build_dir):
    first, second = cpp_orders(build_dir, [(100, 1, 0, 5, epoch, 1, 0, 0) for epoch in (0, 1)])
    assert first != second and sorted(first) == sorted(second) == list(range(100))
