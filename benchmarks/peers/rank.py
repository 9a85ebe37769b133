"""What the ranks of all Python peers share: the reference GPT on the weights and tokens of weft, timed steps, and rank 0's result.

A rank is given its job as one JSON object, its place in the world in the variables of torchrun. The fields of a job:

    shape, init, steps, seed, lr, micro_batch   the work; tokens are those of `weft train --data random`
    out                                         where rank 0 leaves the fields of `weft train --json` that the benchmarks read
    device                                      "cpu" (default) or "cuda"; ranks that share a GPU meet over Gloo, others over NCCL
    precision                                   "fp32" (default), "bf16", "fp16"
"""

from __future__ import annotations

import json
import os
import pathlib
import resource
import statistics
import struct
import sys
import time
from typing import Callable

import torch
import torch.distributed as dist
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.reference.gpt import Gpt, GptShape, Losses  # noqa: E402
from tests.reference.tokens import random_batch  # noqa: E402

PHASES = ("forward", "backward", "optimizer")
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Step = Callable[[torch.Tensor], tuple[torch.Tensor, list[float]]]


def device_of(job: dict) -> torch.device:
    """Ranks share the devices there are."""
    if job.get("device", "cpu") == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def backend_of(device: torch.device) -> str:
    """NCCL wants a GPU for each rank."""
    return "nccl" if device.type == "cuda" and int(os.environ.get("WORLD_SIZE", "1")) <= torch.cuda.device_count() else "gloo"


def load_model(job: dict) -> Losses:
    gpt = Gpt(GptShape(**job["shape"]))
    gpt.load_state_dict(load_file(job["init"]))
    return Losses(gpt)


def batches_of(job: dict, device: torch.device) -> list[torch.Tensor]:
    """Drawn before the first step: numpy's are slow to make, and weft's cost nothing."""
    shape = job["shape"]
    drawn = (random_batch(job["seed"], step, dist.get_rank(), job["micro_batch"], shape["seq"], shape["vocab"]) for step in range(job["steps"]))
    return [torch.from_numpy(rows).to(device) for rows in drawn]


def mean_over_ranks(loss: torch.Tensor) -> float:
    if dist.get_world_size() == 1:
        return loss.item()
    mean = loss.detach().float()
    mean = mean.clone() if mean.data_ptr() == loss.data_ptr() else mean
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()


def times_of(marks: list[list[float]]) -> dict:
    """Each step's marks: its begin, the end of each phase, and when the loss was known."""
    warm = marks[min(5, len(marks) // 3):]  # as weft leaves out
    steps_ms = sorted((one[-1] - one[0]) * 1e3 for one in warm)
    times = {"step_ms": {"median": statistics.median_low(steps_ms), "min": steps_ms[0], "p90": steps_ms[int(0.9 * (len(steps_ms) - 1))]}}
    if dist.get_world_size() == 1 and not torch.cuda.is_initialized():  # a device is still at it when a phase returns
        times["breakdown_ms"] = {phase: statistics.median_low([(one[i + 1] - one[i]) * 1e3 for one in warm]) for i, phase in enumerate(PHASES)}
    return times


def memory_of(device: torch.device) -> dict:
    memory = {"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    return {**memory, "peak_device_bytes": torch.cuda.max_memory_allocated(device)} if device.type == "cuda" else memory


def train(job: dict, device: torch.device, step: Step, more: Callable[[], dict] = dict) -> None:
    """All steps of one rank; rank 0 leaves the result. `step` returns the loss, and the times at which it began and its phases were over;
    `more` is asked for further fields when training is over."""
    losses, marks = [], []
    for rows in batches_of(job, device):
        loss, phases = step(rows)
        losses.append(mean_over_ranks(loss))
        marks.append([*phases, time.perf_counter()])
    fields = {"schema": 1, "world": dist.get_world_size(), "steps": len(losses), "loss": losses, "loss_bits": [struct.pack(">f", loss).hex() for loss in losses],
              **times_of(marks), **memory_of(device), **more()}
    if dist.get_rank() == 0:
        pathlib.Path(job["out"]).write_text(json.dumps(fields))


def leave() -> None:
    """Ends this rank when all have done their work. Without a tidy end: once in a few dozen runs torch's threads are still busy when the
    interpreter goes, and the process aborts."""
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
