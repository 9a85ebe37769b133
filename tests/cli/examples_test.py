"""The example programs as their first lines say to run them."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def losses_of(weft, build_dir, num_ranks: int) -> list[float]:
    config = str(ROOT / "examples" / "mlp" / "ds_config.json")
    done = weft("run", "-n", str(num_ranks), "--no-prefix", "--", str(build_dir / "bin" / "mlp"), config)
    assert done.code == 0, done.err
    return [float(loss) for loss in re.findall(r"^epoch \d+: loss (\d+\.\d+)$", done.out, re.MULTILINE)]


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_mlp_learns(weft, build_dir, num_ranks):
    losses = losses_of(weft, build_dir, num_ranks)
    assert len(losses) == 8
    assert losses[-1] < losses[0] / 10, losses


def test_mlp_says_what_is_wrong(weft, build_dir):
    done = weft("run", "--", str(build_dir / "bin" / "mlp"), "missing.json")
    assert done.code == 2 and "missing.json" in done.err, done.err
