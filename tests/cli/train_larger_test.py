"""Stage 3 with a model that no single rank could even hold: under a limit of memory below the bytes of its weights."""

from __future__ import annotations

import json
import os
import resource

import pytest

from tests.conftest import run_with_deadline

# 63M parameters, none of them larger than four megabytes: 253 MB in fp32.
LARGE = "--dim 512 --layers 20 --heads 4 --vocab 256 --seq 8".split()
SMALL = "--dim 16 --layers 1 --heads 2 --vocab 64 --seq 8".split()
MIB = 1 << 20


def config(stage: int, transport: str, accumulation: int = 1) -> dict:
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulation, "gradient_clipping": 0,
            "optimizer": {"type": "SGD", "params": {"lr": 0.01}},
            "zero_optimization": {"stage": stage, "stage3_max_live_parameters": 1_000_000, "stage3_prefetch_bucket_size": 0,
                                  "reduce_bucket_size": 1_000_000},
            "weft": {"transport": transport, "common_parameters": False}}


@pytest.fixture
def train(build_dir, tmp_path):
    """A run that may have so many bytes of memory of its own: heap, stacks and private mappings (RLIMIT_DATA)."""

    def run(ranks: int, settings: dict, shape: list[str], data_bytes: int | None = None, *more: str):
        (tmp_path / "here.json").write_text(json.dumps(settings))

        def limit():
            # Each thread's stack counts in full, used or not.
            resource.setrlimit(resource.RLIMIT_STACK, (MIB, MIB))
            if data_bytes is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))

        # What is freed goes back: kept for the next step, holes between blocks would count too.
        env = os.environ | {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=262144"}
        return run_with_deadline([str(build_dir / "bin" / "weft"), "train", "-n", str(ranks), *shape, "--micro-batch", "1", "--threads", "1", "--data",
                                  "random", "--steps", "3", "--config", "here.json", "--json", "out.json", *more], cwd=tmp_path, env=env,
                                 preexec_fn=limit)

    return run


def bytes_of_the_program(train) -> int:
    """What it has without a model worth speaking of: libraries, threads, the transport."""
    low, high = 0, 256
    while high - low > 32:
        middle = (low + high) // 2
        low, high = (low, middle) if train(4, config(3, "gloo"), SMALL, middle * MIB).code == 0 else (middle, high)
    return high * MIB


def test_a_model_that_fits_no_rank_is_trained(train, tmp_path):
    def result() -> dict:
        return json.loads((tmp_path / "out.json").read_text())

    assert train(1, config(0, "shm", accumulation=4), LARGE).code == 0
    alone, weights_bytes = result()["loss_bits"], result()["params"] * 4
    assert len(set(alone)) == 3

    # Of four ranks each has a quarter of the weights and of the gradients, and a few parameters of four megabytes that are gathered or
    # on their way. A save is written from a copy of the slices.
    program = bytes_of_the_program(train)
    to_train, to_save = program + weights_bytes * 7 // 10, program + weights_bytes * 9 // 10
    for ranks, settings in ((1, config(0, "shm", accumulation=4)), (4, config(2, "gloo"))):
        whole = train(ranks, settings, LARGE, to_save)
        assert whole.code != 0 and "allocate memory" in whole.err, whole.err

    # Slices in memory that the ranks share, which the limit does not count, and then all of it a rank's own, which it does: the bits of
    # one process that has everything.
    for transport in ("shm", "gloo"):
        done = train(4, config(3, transport), LARGE, to_train, "--export", transport)
        assert done.code == 0, done.err
        assert result()["loss_bits"] == alone, transport
        assert sum(path.stat().st_size for path in (tmp_path / transport).iterdir()) > weights_bytes
        done = train(4, config(3, transport), LARGE, to_save, "--save", f"{transport}_state")
        assert done.code == 0, done.err
        assert result()["loss_bits"] == alone, transport
        saved = [path.stat().st_size for path in (tmp_path / f"{transport}_state" / "step_00000003").glob("rank_*.safetensors")]
        assert len(saved) == 4 and sum(saved) > weights_bytes and max(saved) < weights_bytes // 3, saved
