#!/usr/bin/env python3
"""One rank of Python torch on the reference GPT: alone, under DistributedDataParallel, or sharded by FSDP2. A peer for benchmarks/e2e.

    weft run -n 2 -- python benchmarks/peers/torch_rank.py '{"shape": {...}, "init": "w.safetensors", "steps": 30, "seed": 1,
                                                             "lr": 1e-4, "micro_batch": 2, "out": "result.json"}'

The job is that of rank.py, and:

    wire     "fp32" (default); "bf16" sends gradients as bfloat16 through torch's own bf16_compress_hook. torch refuses that hook by its name
             where there is no NCCL, although Gloo reduces bfloat16 too; so it is registered under another name here. Users of torch on Gloo
             do not get it without the same step
    wrap     "ddp" (default); "fsdp2": fully_shard on every block, as it is by default: parameters are given back after forward and
             gathered again for backward, which is ZeRO-3; "fsdp2-kept": they are kept after forward, which is what ZeRO-2 keeps

A world of one has nothing around the model, and gives the times of forward, backward and update too. bf16 and fp16 are torch's autocast,
fp16 with its GradScaler; weights stay fp32.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from benchmarks.peers.rank import TYPES, Losses, Step, backend_of, device_of, leave, load_model, train  # noqa: E402
from tests.reference.gpt import fused_adamw  # noqa: E402


def send_bf16(group: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return bf16_compress_hook(group, bucket)


# DistributedDataParallel compares the annotation itself, not its text.
send_bf16.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}


def sharded(model: Losses, keep: bool) -> torch.nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    how = {"mesh": mesh, **({"reshard_after_forward": False} if keep else {})}
    for i in range(model.gpt.shape.layers):
        fully_shard(getattr(model.gpt, f"block{i}"), **how)
    return fully_shard(model, **how)


def wrapped(model: Losses, job: dict) -> torch.nn.Module:
    if dist.get_world_size() == 1:
        return model
    if job.get("wrap", "ddp") != "ddp":
        return sharded(model, keep=job["wrap"] == "fsdp2-kept")
    parallel = DistributedDataParallel(model)
    if job.get("wire") == "bf16":
        parallel.register_comm_hook(None, send_bf16)
    return parallel


def step_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, precision: str) -> Step:
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    narrow = torch.autocast(device.type, dtype=TYPES[precision], enabled=precision != "fp32")

    def step(rows: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
        marks = [time.perf_counter()]
        with narrow:
            loss = model(rows)
        marks.append(time.perf_counter())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        marks.append(time.perf_counter())
        scaler.step(optimizer)
        scaler.update()
        return loss, [*marks, time.perf_counter()]

    return step


def main(job: dict) -> None:
    torch.set_num_threads(1)
    device = device_of(job)
    dist.init_process_group(backend_of(device))
    model = wrapped(load_model(job).to(device), job)
    optimizer = fused_adamw(model, job["lr"])
    train(job, device, step_of(model, optimizer, device, job.get("precision", "fp32")))
    leave()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
