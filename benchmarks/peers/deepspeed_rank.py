#!/usr/bin/env python3
"""One rank of DeepSpeed on the reference GPT, at any ZeRO stage. A peer for benchmarks/e2e; benchmarks/config/setup makes its interpreter.

    weft run -n 2 -- build/deepspeed/bin/python benchmarks/peers/deepspeed_rank.py \
      '{"shape": {...}, "init": "w.safetensors", "steps": 30, "seed": 1, "lr": 1e-4, "micro_batch": 2, "stage": 2, "out": "result.json"}'

The job is that of rank.py, and:

    stage      0 to 3
    overlap    overlap_comm; true by default
    bucket     reduce_bucket_size and allgather_bucket_size, in elements; DeepSpeed's own 500,000,000 by default
    clip       gradient_clipping; 0, none, by default
    config     further keys of its ds_config, such as {"fp16": {"initial_scale_power": 24}}

The optimizer is torch's fused AdamW: DeepSpeed's own would be compiled at the first start. Rank 0 also leaves `state_bytes`, with the fp32
copy of the weights as `master`; with fp16, `loss_scale`, what the loss of each step was multiplied with, and `skipped`, a truth value for
each step.

On a processor without half-precision instructions DeepSpeed refuses fp16, although torch computes it there; it is told otherwise here.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time

JOB = json.loads(sys.argv[1])
os.environ["DS_ACCELERATOR"] = JOB.get("device", "cpu")  # read when DeepSpeed is imported

import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from benchmarks.peers.rank import TYPES, Step, backend_of, device_of, leave, load_model, train  # noqa: E402

MASTERS = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups")  # of stages 1 and 2, 3, 0


def config_of(job: dict) -> dict:
    zero = {"stage": job["stage"], "overlap_comm": job.get("overlap", True)}
    if job.get("bucket"):
        zero.update(reduce_bucket_size=job["bucket"], allgather_bucket_size=job["bucket"])
    adamw = {"lr": job["lr"], "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "torch_adam": True, "fused": True}
    config = {"train_micro_batch_size_per_gpu": job["micro_batch"], "gradient_accumulation_steps": 1, "gradient_clipping": job.get("clip", 0),
              "optimizer": {"type": "AdamW", "params": adamw}, "zero_optimization": zero, "steps_per_print": 10**9}
    precision = job.get("precision", "fp32")
    if precision != "fp32":
        config[precision] = {"enabled": True}
    for key, value in job.get("config", {}).items():
        config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
    return config


def scale_of(engine: deepspeed.DeepSpeedEngine) -> float:
    """Of the next backward. Stage 0 keeps it in another place than the ZeRO stages."""
    optimizer = engine.optimizer
    return float(optimizer.loss_scale_config.cur_scale if hasattr(optimizer, "loss_scale_config") else getattr(optimizer, "loss_scale", 1.0))


def bytes_of(tensors) -> int:
    """Memory that several views share counts once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if isinstance(t, torch.Tensor)}
    return sum(storages.values())


def flattened(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    return [t for child in children for t in flattened(child)]


class Meter:
    """What a rank stores, and what happened to the loss scale."""

    def __init__(self, engine: deepspeed.DeepSpeedEngine, precision: str) -> None:
        self.engine, self.precision = engine, precision
        self.scales: list[float] = []
        self.skipped: list[bool] = []
        self.grad_bytes = 0

    def after_backward(self) -> None:
        """Gradients of parameters, or what ZeRO has left of them, without its buckets. Their bytes do not change: once is enough."""
        if self.grad_bytes == 0:
            averaged = getattr(self.engine.optimizer, "averaged_gradients", {})
            self.grad_bytes = bytes_of([p.grad for p in self.engine.module.parameters()] + flattened(averaged))

    def fields(self) -> dict:
        optimizer = self.engine.optimizer
        inner = getattr(optimizer, "optimizer", optimizer)
        params = [getattr(p, "ds_tensor", p) for p in self.engine.module.parameters()]
        masters = [t for name in MASTERS for t in flattened(getattr(optimizer, name, []))]
        state = {"params": bytes_of(params), "grads": self.grad_bytes, "optimizer": bytes_of(flattened(dict(inner.state))), "master": bytes_of(masters)}
        scaling = {"loss_scale": self.scales, "skipped": self.skipped} if self.precision == "fp16" else {}
        return {"stage": self.engine.zero_optimization_stage(), "deepspeed": deepspeed.__version__, "state_bytes": state, **scaling}


def step_of(engine: deepspeed.DeepSpeedEngine, meter: Meter) -> Step:
    def step(rows: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
        scale, skipped = scale_of(engine), engine.skipped_steps
        marks = [time.perf_counter()]
        loss = engine(rows)
        marks.append(time.perf_counter())
        engine.backward(loss)
        marks.append(time.perf_counter())
        meter.after_backward()
        engine.step()
        meter.scales.append(scale)
        meter.skipped.append(engine.skipped_steps > skipped)
        return loss, [*marks, time.perf_counter()]

    return step


def main(job: dict) -> None:
    torch.set_num_threads(1)
    device = device_of(job)
    os.environ["LOCAL_RANK"] = str(device.index or 0)  # DeepSpeed chooses its device by it
    deepspeed.init_distributed(dist_backend=backend_of(device), verbose=False)
    if job.get("precision") == "fp16" and device.type == "cpu":
        get_accelerator().is_fp16_supported = lambda: True
    model = load_model(job).to(TYPES[job.get("precision", "fp32")])
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config_of(job))[0]
    meter = Meter(engine, job.get("precision", "fp32"))
    train(job, device, step_of(engine, meter), meter.fields)
    leave()


if __name__ == "__main__":
    main(JOB)
