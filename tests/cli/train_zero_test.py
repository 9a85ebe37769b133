"""The promises of docs/zero.md through the real launcher: stages that change no bit, what each keeps, and what each sends."""

from __future__ import annotations

import itertools
import json
import pathlib

import pytest

pytestmark = pytest.mark.xdist_group("train_zero")  # runs of one config are one run

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


def test_settings_without_effect_are_said_once_by_one_rank(weft, tmp_path):
    zero = {"stage": 2, "reduce_scatter": False, "round_robin_gradients": True, "allgather_partitions": False, "parameter_alignment": False,
            "offload_optimizer": {"device": "cpu"}}
    (tmp_path / "here.json").write_text(json.dumps(config("fp32", 1, zero, {"save_every_steps": 2})))
    done = weft("train", "-n", "2", *"--dim 16 --layers 1 --heads 2 --seq 8 --vocab 64 --threads 1 --data random --steps 2 --config here.json".split())
    assert done.code == 0, done.err
    told = [line for line in done.err.splitlines() if "here.json:" in line]
    assert [line.split(": ")[1].split(" ")[0] for line in told[:3]] == [f"zero_optimization.{key}" for key in list(zero)[1:4]], told
    assert all(" has no effect in weft: " in line for line in told[:3]), told
    assert len(told) == 4 and "weft does not act on zero_optimization.offload_optimizer yet: weft offloads nothing yet" in told[3], told
    assert done.err.count("has no effect without --save") == 1, done.err


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_products_of_weft_have_the_bits_of_torchs(run, stage):
    shape = "--dim 128 --layers 2 --heads 2 --seq 32 --micro-batch 2 --vocab 512"
    ours, torchs = (run(2, config("fp32", 1, {"stage": stage}, {"matmul": how}) | {"train_micro_batch_size_per_gpu": 2}, steps=200, shape=shape)
                    for how in ("auto", "torch"))
    assert len(set(ours["loss_bits"])) > 190
    assert ours["loss_bits"] == torchs["loss_bits"]


@pytest.mark.skipif("avx512vl" not in pathlib.Path("/proc/cpuinfo").read_text(), reason="no vectors of 512 bits")
def test_products_are_chosen_unless_the_config_says_no(weft, tmp_path):
    shape = "--dim 128 --layers 1 --heads 2 --seq 32 --vocab 512 --threads 1 --data random --steps 3"
    said = []
    for how in ("auto", "torch"):
        (tmp_path / "here.json").write_text(json.dumps(config("fp32", 1, {"stage": 1}, {"matmul": how})))
        done = weft("train", *shape.split(), "--config", "here.json", env={"WEFT_LOG": "debug"})
        assert done.code == 0, done.err
        said.append([line for line in done.err.splitlines() if "products of 32 x 128 x " in line])
    assert said[0] and not said[1], said


@pytest.mark.parametrize("common, trial", TRIALS, ids=lambda words: " ".join(map(str, words)).replace(" ", "-"))
def test_every_stage_has_the_bits_of_stage_zero(run, common, trial):
    ranks, type_, accumulation = common
    stage, overlap, bring, bucket = trial
    whole = run(ranks, config(type_, accumulation, {"stage": 0}, {"shard_update": False}))
    out = run(ranks, config(type_, accumulation, {"stage": stage, "overlap_comm": overlap, "reduce_bucket_size": bucket}, BRING[bring]))
    assert out["stage"] == stage and out["world"] == ranks
    assert len(out["loss_bits"]) == STEPS and len(set(out["loss_bits"])) > STEPS // 2
    assert out["loss_bits"] == whole["loss_bits"]


# Parameters in one memory, copied out of the others' slices, and with room for hardly more than what an operator needs.
THIRD = {"in place": ({}, {}),
         "copied": ({"stage3_param_persistence_threshold": 100}, {"common_parameters": False}),
         "tight": ({"stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 2000, "reduce_bucket_size": 500}, {"common_parameters": False})}


@pytest.mark.parametrize("ranks, type_, accumulation, how", [
    (1, "fp32", 1, "in place"), (1, "bf16", 4, "in place"), (2, "fp32", 4, "in place"), (3, "bf16", 4, "in place"), (2, "bf16", 1, "copied"),
    (3, "fp32", 1, "copied"), (4, "fp32", 4, "copied"), (2, "fp32", 4, "tight"), (4, "bf16", 1, "tight")])
def test_stage_three_has_the_bits_of_stage_zero(run, ranks, type_, accumulation, how):
    zero, ours = THIRD[how]
    whole = run(ranks, config(type_, accumulation, {"stage": 0}, {"shard_update": False}))
    out = run(ranks, config(type_, accumulation, {"stage": 3, **zero}, ours))
    assert out["stage"] == 3 and out["loss_bits"] == whole["loss_bits"]


def test_stage_three_is_saved_and_resumed_in_another(weft, tmp_path):
    """What was saved from slices goes on in stage 2, and in stage 3 over a network, as if nothing had happened."""
    zero, ours = THIRD["tight"]
    configs = {"third": config("bf16", 1, {"stage": 3, **zero}, ours), "second": config("bf16", 1, {"stage": 2}, ours),
               "network": config("bf16", 1, {"stage": 3, **zero}, {"transport": "gloo"})}
    for name, one in configs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one))

    def bits(name: str, steps: int, *more: str) -> list[str]:
        done = weft("train", "-n", "2", *"--dim 16 --layers 1 --heads 2 --seq 8 --micro-batch 1 --vocab 64 --threads 1 --data random".split(),
                    "--steps", str(steps), "--config", f"{name}.json", "--json", "-", *more)
        assert done.code == 0, done.err
        return json.loads(done.out)["loss_bits"]

    whole = bits("second", 12)
    for name in ("second", "network"):
        assert bits("third", 6, "--save", name, "--save-every", "6") == whole[:6]
        assert bits(name, 12, "--save", name, "--resume")[-6:] == whole[6:]


def test_weights_of_stage_three_are_read_by_python_and_back(weft, tmp_path):
    """The same files from every stage and transport, and a run that starts from them in pieces, as Hugging Face has them."""
    from safetensors.torch import load_file, save_file

    zero, ours = THIRD["tight"]
    configs = {"second": config("bf16", 1, {"stage": 2}, ours), "third": config("bf16", 1, {"stage": 3, **zero}, ours),
               "network": config("bf16", 1, {"stage": 3, **zero}, {"transport": "gloo"})}

    def run(name: str, *more: str) -> dict:
        (tmp_path / f"{name}.json").write_text(json.dumps(configs[name]))
        done = weft("train", "-n", "2", *"--dim 16 --layers 1 --heads 2 --seq 8 --micro-batch 1 --vocab 64 --threads 1 --data random --tied".split(),
                    "--steps", "4", "--config", f"{name}.json", "--json", "-", *more)
        assert done.code == 0, done.err
        return json.loads(done.out)

    for name in configs:
        run(name, "--export", f"{name}.safetensors")
        run(name, "--export", f"{name}_folder")
    weights = load_file(tmp_path / "second.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) == run("second")["params"]
    for name in configs:
        for path in (f"{name}.safetensors", f"{name}_folder/model.safetensors"):
            other = load_file(tmp_path / path)
            assert other.keys() == weights.keys() and all(other[key].equal(weights[key]) for key in weights), path

    (tmp_path / "pieces").mkdir()
    names = sorted(weights)
    index = {"metadata": {"total_size": 0}, "weight_map": {key: f"model-{i % 3 + 1:05}-of-00003.safetensors" for i, key in enumerate(names)}}
    for i in range(3):
        save_file({key: weights[key].contiguous() for key in names[i::3]}, tmp_path / "pieces" / f"model-{i + 1:05}-of-00003.safetensors",
                  metadata={"format": "pt"})
    (tmp_path / "pieces" / "model.safetensors.index.json").write_text(json.dumps(index))
    from_file = run("second", "--init", "second.safetensors")["loss_bits"]
    assert from_file != run("second")["loss_bits"]
    for name in configs:
        assert run(name, "--init", "pieces")["loss_bits"] == from_file


@pytest.mark.parametrize("ours", [{"common_parameters": False}, {"transport": "gloo"}, {}], ids=["slices", "network", "common"])
def test_an_export_in_several_files_is_read_by_its_index(weft, tmp_path, ours):
    """As transformers reads it: the index names every tensor's file, and no file has another; what they hold are the parameters."""
    torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")
    safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed beside torch: tools/setup installs both")
    (tmp_path / "here.json").write_text(json.dumps(config("bf16", 1, {"stage": 3, **THIRD["tight"][0]}, ours)))

    def export(path: str, *more: str) -> int:
        done = weft("train", "-n", "3", *"--dim 16 --layers 2 --heads 2 --seq 8 --micro-batch 1 --vocab 64 --threads 1 --data random --tied".split(),
                    "--steps", "3", "--config", "here.json", "--json", "-", "--export", path, *more)
        assert done.code == 0, done.err
        return json.loads(done.out)["params"]

    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces" / "model-00001-of-00002.safetensors").write_text("an earlier save's")
    num_params = export("pieces", "--export-max-file", "3KB")
    export("whole.safetensors")
    index = json.loads((tmp_path / "pieces" / "model.safetensors.index.json").read_text())
    weight_map = index["weight_map"]
    files = sorted(set(weight_map.values()))
    assert len(files) > 3 and files == [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    assert sorted(path.name for path in (tmp_path / "pieces").iterdir()) == [*files, "model.safetensors.index.json"]
    found = {}
    for name in files:
        with safetensors.safe_open(tmp_path / "pieces" / name, framework="pt") as file:
            assert file.metadata()["format"] == "pt"
            assert set(file.keys()) == {key for key, where in weight_map.items() if where == name}
            tensors = {key: file.get_tensor(key) for key in file.keys()}
        assert len(tensors) == 1 or sum(tensor.nbytes for tensor in tensors.values()) <= 3000, name
        found |= tensors
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in found.values()) == 2 * num_params
    with safetensors.safe_open(tmp_path / "whole.safetensors", framework="pt") as file:
        assert set(file.keys()) == set(found)
        assert all(torch.equal(found[key], file.get_tensor(key)) for key in file.keys())
        assert len({found[key].float().abs().sum().item() for key in found}) > 5  # they were trained, each to values of its own


# Large enough that padding, which what is sent includes, is below one in a hundred.
LARGER = "--dim 64 --layers 1 --heads 2 --seq 8 --micro-batch 1 --vocab 256"


def measured(run, ranks: int, stage: int, **ours) -> tuple[dict, int]:
    out = run(ranks, config("bf16", 1, {"stage": stage}, ours), steps=4, shape=LARGER)
    return out, out["params"]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_what_a_rank_keeps_is_what_the_table_says(run, ranks):
    """bf16 with Adam: 2 bytes of parameter, 2 of gradient, 12 of fp32 weight and moments."""
    for stage, whole, shared in ((1, 4, 12), (2, 2, 14), (3, 0, 16)):
        out, params = measured(run, ranks, stage)
        kept = out["state_bytes"]
        assert kept["params"] == pytest.approx(2 * params / (ranks if stage == 3 else 1), rel=1e-3)
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
