"""The promises of docs/zero.md through the real launcher: stages that change no bit, what each keeps, and what each sends."""

from __future__ import annotations

import itertools
import json

import pytest

STEPS = 200

# world, type, accumulation | stage, overlap, how parameters come back, bucket: every value of each with every value of each other.
TRIALS = [
    ((1, "fp32", 1), (1, False, "at once", 1)),
    ((1, "fp32", 1), (2, False, "common", 1)),
    ((1, "bf16", 4), (1, False, "common", 3000)),
    ((1, "bf16", 4), (2, True, "lazy", 500_000_000)),
    ((2, "bf16", 1), (1, True, "common", 500_000_000)),
    ((2, "bf16", 1), (2, False, "at once", 500_000_000)),
    ((2, "fp32", 4), (1, False, "lazy", 1)),
    ((2, "fp32", 4), (2, False, "at once", 3000)),
    ((3, "fp32", 1), (1, True, "common", 1)),
    ((3, "fp32", 1), (2, True, "lazy", 3000)),
    ((3, "bf16", 4), (1, False, "common", 500_000_000)),
    ((3, "bf16", 4), (2, True, "at once", 3000)),
    ((4, "bf16", 1), (1, False, "at once", 1)),
    ((4, "bf16", 1), (2, False, "lazy", 1)),
    ((4, "fp32", 4), (1, False, "at once", 3000)),
    ((4, "fp32", 4), (2, True, "common", 500_000_000)),
]

BRING = {"common": {}, "lazy": {"common_parameters": False}, "at once": {"common_parameters": False, "lazy_gather": False}}


def test_the_trials_cover_all_pairs():
    rows = [before + after for before, after in TRIALS]
    values = [sorted(set(column), key=str) for column in zip(*rows)]
    assert [len(column) for column in values] == [4, 2, 2, 2, 2, 3, 3]
    for i, j in itertools.combinations(range(len(values)), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(values[i], values[j]))


DONE: dict[tuple, dict] = {}  # runs of one config are one run


@pytest.fixture
def run(weft, tmp_path):
    """The result of a run with this config."""

    def trained(ranks: int, config: dict, steps: int = STEPS, shape: str = "--dim 16 --layers 1 --heads 2 --seq 8 --micro-batch 1 --vocab 64") -> dict:
        text = json.dumps(config, sort_keys=True)
        if (ranks, steps, shape, text) not in DONE:
            (tmp_path / "here.json").write_text(text)
            done = weft("train", "-n", str(ranks), *shape.split(), "--threads", "1", "--data", "random", "--steps", str(steps), "--config", "here.json",
                        "--json", "-")
            assert done.code == 0, done.err
            DONE[ranks, steps, shape, text] = json.loads(done.out)
        return DONE[ranks, steps, shape, text]

    return trained


def config(type_: str, accumulation: int, zero: dict, ours: dict) -> dict:
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulation, "gradient_clipping": 0.5,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}}, "bf16": {"enabled": type_ == "bf16"},
            "zero_optimization": zero, "weft": {"transport": "shm", **ours}}


@pytest.mark.parametrize("common, trial", TRIALS, ids=lambda words: " ".join(map(str, words)).replace(" ", "-"))
def test_every_stage_has_the_bits_of_stage_zero(run, common, trial):
    ranks, type_, accumulation = common
    stage, overlap, bring, bucket = trial
    whole = run(ranks, config(type_, accumulation, {"stage": 0}, {"shard_update": False}))
    out = run(ranks, config(type_, accumulation, {"stage": stage, "overlap_comm": overlap, "reduce_bucket_size": bucket}, BRING[bring]))
    assert out["stage"] == stage and out["world"] == ranks
    assert len(out["loss_bits"]) == STEPS and len(set(out["loss_bits"])) > STEPS // 2
    assert out["loss_bits"] == whole["loss_bits"]


# Large enough that padding, which what is sent includes, is below one in a hundred.
LARGER = "--dim 64 --layers 1 --heads 2 --seq 8 --micro-batch 1 --vocab 256"


def measured(run, ranks: int, stage: int, **ours) -> tuple[dict, int]:
    out = run(ranks, config("bf16", 1, {"stage": stage}, ours), steps=4, shape=LARGER)
    return out, out["params"]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_what_a_rank_keeps_is_what_the_table_says(run, ranks):
    """bf16 with Adam: 2 bytes of parameter, 2 of gradient, 12 of fp32 weight and moments."""
    for stage, whole, shared in ((1, 4, 12), (2, 2, 14)):
        out, params = measured(run, ranks, stage)
        kept = out["state_bytes"]
        assert kept["params"] == 2 * params
        assert sum(kept.values()) == pytest.approx((whole + shared / ranks) * params, rel=1e-4), (stage, kept)
    out, params = measured(run, ranks, 0, shard_update=False)
    assert sum(out["state_bytes"].values()) == 16 * params


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("stage", [1, 2])
def test_a_step_scatters_and_gathers_each_byte_once(run, ranks, stage):
    """(n - 1) / n of the model a rank, for the gradients and for the parameters."""
    scattered, params = measured(run, ranks, stage)
    both, _ = measured(run, ranks, stage, common_parameters=False)
    once = 2 * params * (ranks - 1) / ranks
    for sent in (scattered["bytes_sent"] / 4, (both["bytes_sent"] - scattered["bytes_sent"]) / 4):
        assert once <= sent <= 1.01 * once
