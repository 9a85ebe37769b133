"""`weft train -n 2` against torch's DistributedDataParallel, and against itself with every setting of the reduction: same bits."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is not installed beside torch: tools/setup installs both")

from tests.reference.gpt import Gpt, GptShape  # noqa: E402

REPO = pathlib.Path(__file__).resolve().parents[2]
STEPS = 50
SEED, LR, MICRO_BATCH = 5, 1e-3, 2
SHAPE = {"vocab": 512, "seq": 32, "dim": 64, "layers": 3, "heads": 4}
DEADLINE_S = 240


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def torch_ddp(init: pathlib.Path, final: pathlib.Path) -> list[str]:
    job = json.dumps({"shape": SHAPE, "init": str(init), "final": str(final), "steps": STEPS, "seed": SEED, "lr": LR, "micro_batch": MICRO_BATCH})
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, "-m", "tests.reference.ddp_rank", job], cwd=REPO, env={**env, "RANK": str(rank)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    outs = [rank.communicate(timeout=DEADLINE_S) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outs
    return json.loads(outs[0][0])


def train(weft, init: pathlib.Path, *more: str, ranks: int = 2) -> dict:
    shape = [word for name, value in SHAPE.items() for word in (f"--{name}", str(value))]
    done = weft("train", "-n", str(ranks), *shape, "--micro-batch", str(MICRO_BATCH), "--threads", "1", "--data", "random", "--seed", str(SEED), "--lr", str(LR),
                "--warmup", "0", "--steps", str(STEPS), "--init", str(init), "--json", "result.json", *more, deadline_s=DEADLINE_S)
    assert done.code == 0, done.err
    return json.loads((init.parent / "result.json").read_text())


@pytest.fixture
def init(tmp_path) -> pathlib.Path:
    torch.manual_seed(0)
    safetensors_torch.save_file(Gpt(GptShape(**SHAPE)).state_dict(), tmp_path / "init.safetensors")
    return tmp_path / "init.safetensors"


def test_two_ranks_give_the_bits_of_torch_ddp(weft, tmp_path, init):
    expected = torch_ddp(init, tmp_path / "torch.safetensors")
    out = train(weft, init, "--export", "weft.safetensors")
    assert out["world"] == 2
    assert out["loss_bits"] == expected
    ours, theirs = (safetensors_torch.load_file(tmp_path / f"{who}.safetensors") for who in ("weft", "torch"))
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name


def config(tmp_path: pathlib.Path, zero: dict, **more) -> str:
    text = {"train_micro_batch_size_per_gpu": MICRO_BATCH, "gradient_accumulation_steps": 1, "gradient_clipping": 0,
            "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": 0.01}}, "zero_optimization": {"stage": 0, **zero}, **more}
    (tmp_path / "ds_config.json").write_text(json.dumps(text))
    return "ds_config.json"


@pytest.mark.parametrize("zero, more", [
    ({"overlap_comm": False}, {}),
    ({"overlap_comm": True, "reduce_bucket_size": 5000}, {}),
    ({"overlap_comm": True, "contiguous_gradients": False}, {}),
    ({"overlap_comm": True, "reduce_bucket_size": 100000}, {"weft": {"transport": "gloo"}}),
])
def test_no_setting_of_the_reduction_changes_a_bit(weft, tmp_path, init, zero, more):
    expected = train(weft, init)["loss_bits"]
    assert train(weft, init, "--config", config(tmp_path, zero, **more))["loss_bits"] == expected


def test_one_rank_that_accumulates_twice_gives_the_bits_of_two(weft, init):
    two = train(weft, init)
    one = train(weft, init, "--accumulation", "2", ranks=1)
    assert one["loss_bits"] == two["loss_bits"]
    assert (one["bytes_sent"], two["bytes_sent"] > 0) == (0, True)
