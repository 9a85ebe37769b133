"""The GPT in C++ against the same GPT in Python: same weights, same tokens, one thread, fp32, and then the same bits."""

from __future__ import annotations

import json
import struct

import pytest

torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")
safetensors_torch = pytest.importorskip("safetensors.torch")

from tests.reference.gpt import Gpt, GptShape, fused_adamw  # noqa: E402
from tests.reference.tokens import random_batch  # noqa: E402

STEPS = 20
SEED = 5
LR = 1e-3
MICRO_BATCH = 3
SHAPES = {
    "untied": GptShape(vocab=500, seq=32, dim=48, layers=3, heads=4),
    "tied": GptShape(vocab=300, seq=17, dim=40, layers=2, heads=5, tied=True),
    "benchmark": GptShape(vocab=8192, seq=64, dim=384, layers=6, heads=4),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def flags(shape: GptShape) -> list[str]:
    return ["--dim", str(shape.dim), "--layers", str(shape.layers), "--heads", str(shape.heads), "--vocab", str(shape.vocab), "--seq", str(shape.seq),
            "--micro-batch", str(MICRO_BATCH), "--threads", "1", "--data", "random", "--seed", str(SEED), "--lr", str(LR), "--warmup", "0",
            *(["--tied"] if shape.tied else [])]


def bits(loss: torch.Tensor) -> str:
    return struct.pack(">f", loss.item()).hex()


def python_losses(model: Gpt) -> list[str]:
    optimizer = fused_adamw(model, LR)
    losses = []
    for step in range(STEPS):
        rows = torch.from_numpy(random_batch(SEED, step, 0, MICRO_BATCH, model.shape.seq, model.shape.vocab))
        loss = model.loss(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    return losses


def train(weft, shape: GptShape, *more: str) -> dict:
    done = weft("train", *flags(shape), "--json", "-", *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_weights_from_python_give_the_same_losses_and_weights(weft, tmp_path, shape):
    torch.manual_seed(0)
    model = Gpt(shape)
    safetensors_torch.save_file(model.state_dict(), tmp_path / "init.safetensors")
    out = train(weft, shape, "--steps", str(STEPS), "--init", "init.safetensors", "--export", "final.safetensors")
    assert out["params"] == sum(p.numel() for p in model.parameters())
    assert out["loss_bits"] == python_losses(model)
    final = safetensors_torch.load_file(tmp_path / "final.safetensors")
    assert final.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(final[name], value), name


def test_weights_from_cpp_give_the_same_losses_in_python(weft, tmp_path):
    shape = SHAPES["untied"]
    train(weft, shape, "--steps", "0", "--export", "init.safetensors")
    model = Gpt(shape)
    model.load_state_dict(safetensors_torch.load_file(tmp_path / "init.safetensors"))
    assert train(weft, shape, "--steps", str(STEPS))["loss_bits"] == python_losses(model)


def test_the_reference_can_tell_a_difference(weft, tmp_path):
    """One weight changed by one bit must show, else the tests above prove nothing."""
    shape = SHAPES["untied"]
    model = Gpt(shape)
    changed = {name: value.clone() for name, value in model.state_dict().items()}
    changed["block0.up.weight"].view(torch.int32)[0, 0] ^= 1 << 12
    safetensors_torch.save_file(changed, tmp_path / "init.safetensors")
    assert train(weft, shape, "--steps", str(STEPS), "--init", "init.safetensors")["loss_bits"] != python_losses(model)
