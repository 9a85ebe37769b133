#!/usr/bin/env python3
"""One rank of Python torch on the reference GPT: alone, or under DistributedDataParallel over Gloo. A peer for benchmarks/e2e.

    weft run -n 2 -- python benchmarks/peers/torch_rank.py '{"shape": {...}, "init": "w.safetensors", "steps": 30, "seed": 1,
                                                             "lr": 1e-4, "micro_batch": 2, "wire": "fp32", "out": "result.json"}'

Rank 0 writes the fields of `weft train --json` that the benchmarks read. A world of one has no DistributedDataParallel around the
model, and gives the times of forward, backward and update too. Batches are drawn before the first step: numpy's are slow to make, and
weft's cost nothing. "wire": "bf16" sends gradients as bfloat16 through torch's own bf16_compress_hook. torch refuses that hook by its
name where there is no NCCL, although Gloo reduces bfloat16 too; so it is registered under another name here. Users of torch on Gloo do
not get it without the same step.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import struct
import sys
import time

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.reference.ddp_rank import Losses  # noqa: E402
from tests.reference.gpt import Gpt, GptShape, fused_adamw  # noqa: E402
from tests.reference.tokens import random_batch  # noqa: E402

PHASES = ("forward", "backward", "optimizer")


def send_bf16(group: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return bf16_compress_hook(group, bucket)


# DistributedDataParallel compares the annotation itself, not its text.
send_bf16.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}


def wrapped(gpt: Gpt, job: dict) -> torch.nn.Module:
    if dist.get_world_size() == 1:
        return Losses(gpt)
    model = DistributedDataParallel(Losses(gpt))
    if job.get("wire") == "bf16":
        model.register_comm_hook(None, send_bf16)
    return model


def mean_over_ranks(loss: torch.Tensor) -> float:
    if dist.get_world_size() == 1:
        return loss.item()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()


def one_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> tuple[float, list[float]]:
    """The mean loss, and the times at which the step began, each phase was over, and the loss was known."""
    marks = [time.perf_counter()]
    loss = model(rows)
    marks.append(time.perf_counter())
    optimizer.zero_grad()
    loss.backward()
    marks.append(time.perf_counter())
    optimizer.step()
    marks.append(time.perf_counter())
    mean = mean_over_ranks(loss)
    return mean, [*marks, time.perf_counter()]


def result_of(losses: list[float], marks: list[list[float]]) -> dict:
    warm = marks[min(5, len(marks) // 3):]  # as weft leaves out
    steps_ms = sorted((one[-1] - one[0]) * 1e3 for one in warm)
    phases = {phase: statistics.median_low([(one[i + 1] - one[i]) * 1e3 for one in warm]) for i, phase in enumerate(PHASES)}
    out = {"schema": 1, "world": dist.get_world_size(), "steps": len(losses), "loss_bits": [struct.pack(">f", loss).hex() for loss in losses],
           "step_ms": {"median": statistics.median_low(steps_ms), "min": steps_ms[0], "p90": steps_ms[int(0.9 * (len(steps_ms) - 1))]}}
    return {**out, "breakdown_ms": phases} if dist.get_world_size() == 1 else out


def main(job: dict) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    shape = GptShape(**job["shape"])
    gpt = Gpt(shape)
    gpt.load_state_dict(load_file(job["init"]))
    model = wrapped(gpt, job)
    optimizer = fused_adamw(gpt, job["lr"])
    batches = [torch.from_numpy(random_batch(job["seed"], step, dist.get_rank(), job["micro_batch"], shape.seq, shape.vocab)) for step in range(job["steps"])]
    done = [one_step(model, optimizer, rows) for rows in batches]
    if dist.get_rank() == 0:
        pathlib.Path(job["out"]).write_text(json.dumps(result_of([loss for loss, _ in done], [marks for _, marks in done])))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
