"""Stage 3 on one host: parameters stand once in its memory, whatever the number of ranks, by the kernel's own count."""

from __future__ import annotations

import pytest

from benchmarks.e2e.zero3_memory import LARGE, SMALL, run

# The kernel divides the pages of libtorch among all who have them mapped, other tests too.
pytestmark = pytest.mark.serial

STEPS = 20


@pytest.fixture(scope="module")
def runs(build_dir) -> dict[int, dict]:
    return {ranks: run(build_dir / "bin" / "weft", ranks, LARGE, STEPS) for ranks in (2, 3, 4)}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_parameters_take_one_copy_of_a_hosts_memory(runs, ranks):
    found = runs[ranks]
    assert found["weights"] > 60_000_000 and found["num_samples"] > 10
    assert found["planned"] == pytest.approx(found["weights"], rel=0.01), "what the plan says of all ranks together"
    assert found["common"] == pytest.approx(found["planned"], rel=0.02)


def test_no_rank_has_a_copy_of_its_own(build_dir, runs):
    """What is not shared is gradients on their way and activations: less than the weights, in every rank."""
    small = run(build_dir / "bin" / "weft", 4, SMALL, 20 * STEPS)
    assert (runs[4]["total"] - small["total"] - runs[4]["common"]) / 4 < 0.8 * runs[4]["weights"]
