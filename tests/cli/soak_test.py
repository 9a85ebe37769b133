"""A short soak: soak.py by hand does 100,000 steps."""

from __future__ import annotations

import pytest

from soak import growth, soak

STEPS = 3000


@pytest.mark.serial
def test_many_steps_grow_nothing(build_dir, tmp_path):
    samples = soak(build_dir / "bin" / "weft", STEPS, tmp_path, deadline_s=120)
    assert len(samples) == 2
    for of_rank in samples.values():
        assert len(of_rank) > 2, "sampled too seldom to tell"
        assert not growth(of_rank)
