"""`weft train --device cuda` against Python torch on the same GPU. Needs a CUDA build of torch and a GPU; tools/gpu runs it on such a machine."""

from __future__ import annotations

import json
import struct

import pytest

torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")
safetensors_torch = pytest.importorskip("safetensors.torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device on this machine", allow_module_level=True)

from tests.reference.gpt import Gpt, GptShape, fused_adamw  # noqa: E402
from tests.reference.tokens import random_batch  # noqa: E402

SHAPE = GptShape(vocab=1000, seq=64, dim=128, layers=3, heads=4)
STEPS, SEED, LR, ROWS = 20, 5, 1e-3, 4
FLAGS = ["--dim", "128", "--layers", "3", "--heads", "4", "--vocab", "1000", "--seq", "64", "--micro-batch", str(ROWS), "--data", "random",
         "--seed", str(SEED), "--lr", str(LR), "--warmup", "0", "--device", "cuda", "--json", "-"]


def train(weft, *more: str) -> dict:
    done = weft("train", *FLAGS, *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


def values(bits: list[str]) -> torch.Tensor:
    return torch.tensor([struct.unpack(">f", bytes.fromhex(b))[0] for b in bits])


def test_losses_follow_python_on_the_same_gpu(weft, tmp_path):
    """Same kernels, but backward adds with atomics, so the promise is a bound: 1e-4 relative over 20 steps."""
    torch.manual_seed(0)
    model = Gpt(SHAPE)
    safetensors_torch.save_file(model.state_dict(), tmp_path / "init.safetensors")
    model.cuda()
    optimizer = fused_adamw(model, LR)
    expected = []
    for step in range(STEPS):
        rows = torch.from_numpy(random_batch(SEED, step, 0, ROWS, SHAPE.seq, SHAPE.vocab)).cuda()
        loss = model.loss(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    found = values(train(weft, "--steps", str(STEPS), "--init", "init.safetensors")["loss_bits"])
    assert found[0].item() == expected[0]  # the first forward has no atomics: the same bits
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-4, atol=0)


def test_device_memory_is_reported_and_covers_the_state(weft):
    out = train(weft, "--steps", "3")
    assert out["peak_device_bytes"] >= sum(out["state_bytes"].values())


def test_resume_on_the_gpu_goes_on_from_the_saved_state(weft):
    whole = values(train(weft, "--steps", "12")["loss_bits"])
    first = values(train(weft, "--steps", "6", "--save", "state")["loss_bits"])
    rest = values(train(weft, "--steps", "12", "--save", "state", "--resume")["loss_bits"])
    torch.testing.assert_close(torch.cat([first, rest]), whole, rtol=1e-4, atol=0)
