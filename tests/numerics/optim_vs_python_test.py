"""weft's optimizers against Python torch: same start, same gradients, and then the same bits, or a bound that is stated."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is not installed beside torch: tools/setup installs both")

from tests.conftest import run_with_deadline  # noqa: E402

STEPS = 20
WHOLE = 64 * 1000  # whole vectors for any machine: torch's fused kernels treat the rest in another order
ODD = 10_007
LR = 3e-3

ADAM = {
    "adamw": ("AdamW", {"weight_decay": 0.01}),
    "adamw, low beta1": ("AdamW", {"weight_decay": 0.1, "betas": [0.3, 0.95]}),
    "adam": ("Adam", {"weight_decay": 0.01, "adam_w_mode": False}),
    "adam without decay": ("Adam", {"eps": 1e-6}),
}
SGD = {
    "plain": {},
    "decay": {"weight_decay": 0.01},
    "momentum": {"momentum": 0.9},
    "dampening": {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01},
    "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
}
ADAGRAD = {
    "plain": {},
    "decay": {"weight_decay": 0.01, "eps": 1e-6},
    "lr_decay": {"lr_decay": 0.1, "initial_accumulator_value": 0.1},
}


@pytest.fixture(autouse=True)
def steady():
    torch.manual_seed(7)
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("torch's kernels for this machine do not fuse multiply and add; weft's always do")


@pytest.fixture
def weft_steps(build_dir, tmp_path):
    """Runs the optimizer of a config over the gradients; the result by name."""

    def run(optimizer: dict, param, grads, grad_scale: float = 1.0, scheduler: dict | None = None) -> dict:
        config = {"train_batch_size": 1, "optimizer": optimizer} | ({"scheduler": scheduler} if scheduler else {})
        (tmp_path / "config.json").write_text(json.dumps(config))
        tensors = {"param": param} | {f"grad.{i}": grad for i, grad in enumerate(grads)}
        safetensors_torch.save_file(tensors, tmp_path / "in.safetensors")
        done = run_with_deadline([str(build_dir / "bin/optim_steps"), "config.json", "in.safetensors", "out.safetensors", repr(grad_scale)], cwd=tmp_path)
        assert done.code == 0, done.err
        return safetensors_torch.load_file(tmp_path / "out.safetensors")

    return run


def problem(count: int):
    return torch.randn(count), [torch.randn(count) * 0.1 for _ in range(STEPS)]


def torch_steps(make, param, grads, each=lambda optimizer, step: None):
    parameter = torch.nn.Parameter(param.clone())
    optimizer = make([parameter])
    for step, grad in enumerate(grads):
        parameter.grad = grad.clone()
        each(optimizer, step)
        optimizer.step()
    return parameter.detach(), optimizer.state[parameter]


def adam_maker(type_name: str, params: dict, **how):
    arguments = {key: value for key, value in params.items() if key != "adam_w_mode"}
    decoupled = type_name == "AdamW" or params.get("adam_w_mode", True)
    arguments = {"lr": LR, "weight_decay": 0} | arguments
    return lambda parameters: (torch.optim.AdamW if decoupled else torch.optim.Adam)(parameters, **arguments, **how)


@pytest.mark.parametrize("type_name, params", ADAM.values(), ids=ADAM.keys())
def test_adam_has_the_bits_of_torchs_fused_one(weft_steps, type_name, params):
    param, grads = problem(WHOLE)
    found = weft_steps({"type": type_name, "params": {"lr": LR} | params}, param, grads)
    expected, state = torch_steps(adam_maker(type_name, params, fused=True), param, grads)
    assert torch.equal(found["param"], expected)
    assert torch.equal(found["s.exp_avg"], state["exp_avg"])
    assert torch.equal(found["s.exp_avg_sq"], state["exp_avg_sq"])
    assert torch.equal(found["copy"], expected.bfloat16())
    assert found["step"].item() == STEPS


@pytest.mark.parametrize("type_name, params", ADAM.values(), ids=ADAM.keys())
def test_adam_without_fused_differs_by_the_square_root_alone(weft_steps, type_name, params):
    """torch.sqrt is not correctly rounded everywhere, weft's is: an ulp of each update of at most about LR, and one of the parameter."""
    param, grads = problem(ODD)
    found = weft_steps({"type": type_name, "params": {"lr": LR} | params}, param, grads)
    expected, state = torch_steps(adam_maker(type_name, params, foreach=False), param, grads)
    bound = STEPS * (expected.abs() * 2**-23 + 4 * LR * 2**-22)
    assert ((found["param"] - expected).abs() <= bound).all()
    if type_name == "AdamW" or "weight_decay" not in params:  # else the parameter is part of the gradient
        assert torch.equal(found["s.exp_avg"], state["exp_avg"])
        assert torch.equal(found["s.exp_avg_sq"], state["exp_avg_sq"])


@pytest.mark.parametrize("params", SGD.values(), ids=SGD.keys())
def test_sgd_has_the_bits_of_torchs(weft_steps, params):
    param, grads = problem(ODD)
    found = weft_steps({"type": "SGD", "params": {"lr": LR} | params}, param, grads)
    expected, state = torch_steps(lambda parameters: torch.optim.SGD(parameters, lr=LR, foreach=False, **params), param, grads)
    assert torch.equal(found["param"], expected)
    if "momentum" in params:
        assert torch.equal(found["s.momentum_buffer"], state["momentum_buffer"])


def test_lion_has_the_bits_of_its_definition_in_torch(weft_steps):
    param, grads = problem(ODD)
    found = weft_steps({"type": "Lion", "params": {"lr": LR, "betas": [0.9, 0.99], "weight_decay": 0.1}}, param, grads)
    expected, momentum = param.clone(), torch.zeros(ODD)
    for grad in grads:
        update = momentum.lerp(grad, 1 - 0.9).sign()
        expected.mul_(1 - LR * 0.1).add_(update, alpha=-LR)
        momentum.lerp_(grad, 1 - 0.99)
    assert torch.equal(found["param"], expected)
    assert torch.equal(found["s.exp_avg"], momentum)


@pytest.mark.parametrize("params", ADAGRAD.values(), ids=ADAGRAD.keys())
def test_adagrad_has_the_bits_of_torchs_fused_one(weft_steps, params):
    param, grads = problem(WHOLE)
    found = weft_steps({"type": "Adagrad", "params": {"lr": LR} | params}, param, grads)
    expected, state = torch_steps(lambda parameters: torch.optim.Adagrad(parameters, lr=LR, fused=True, **params), param, grads)
    assert torch.equal(found["param"], expected)
    assert torch.equal(found["s.sum"], state["sum"])


@pytest.mark.parametrize("params", ADAGRAD.values(), ids=ADAGRAD.keys())
def test_adagrad_without_fused_differs_by_the_square_root_alone(weft_steps, params):
    param, grads = problem(ODD)
    found = weft_steps({"type": "Adagrad", "params": {"lr": LR} | params}, param, grads)
    expected, state = torch_steps(lambda parameters: torch.optim.Adagrad(parameters, lr=LR, foreach=False, **params), param, grads)
    bound = STEPS * (expected.abs() * 2**-23 + 4 * LR * 2**-22)
    assert ((found["param"] - expected).abs() <= bound).all()
    if "weight_decay" not in params:  # else the parameter is part of the gradient
        assert torch.equal(found["s.sum"], state["sum"])


def test_a_scale_is_as_good_as_scaled_gradients(weft_steps):
    param, grads = problem(ODD)
    settings = {"type": "AdamW", "params": {"lr": LR}}
    scaled = weft_steps(settings, param, [grad * 0.125 for grad in grads])
    folded = weft_steps(settings, param, grads, grad_scale=0.125)
    assert all(torch.equal(scaled[name], folded[name]) for name in scaled)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_gradients_are_as_good_as_widened_ones(weft_steps, dtype):
    param, grads = problem(ODD)
    halves = [grad.to(dtype) for grad in grads]
    settings = {"type": "AdamW", "params": {"lr": LR}}
    assert torch.equal(weft_steps(settings, param, halves)["param"], weft_steps(settings, param, [half.float() for half in halves])["param"])


def test_a_schedule_moves_the_rate_before_each_update(weft_steps):
    param, grads = problem(WHOLE)
    scheduler = {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}}
    found = weft_steps({"type": "AdamW", "params": {"lr": LR}}, param, grads, scheduler=scheduler)

    def each(optimizer, step):
        optimizer.param_groups[0]["lr"] = 0 if step == 0 else LR * min(1, (step - 1) / 10)

    expected, _ = torch_steps(adam_maker("AdamW", {}, fused=True), param, grads, each)
    assert torch.equal(found["param"], expected)


def test_one_bit_of_one_gradient_shows(weft_steps):
    """Else the tests above prove nothing."""
    param, grads = problem(ODD)
    settings = {"type": "AdamW", "params": {"lr": LR}}
    before = weft_steps(settings, param, grads)
    grads[3].view(torch.int32)[17] ^= 1 << 12
    assert not torch.equal(before["param"], weft_steps(settings, param, grads)["param"])
