#!/usr/bin/env python3
"""One rank of DeepSpeed that trains a small model for a few steps and saves it, for import_test.py: what it leaves is DeepSpeed's own.

    RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29511 python deepspeed_maker.py \
      '{"stage": 2, "precision": "bf16", "steps": 3, "out": "folder"}'

The model has what makes layouts interesting: two groups of parameters, sizes that no number of ranks divides, a weight under two names,
one that is frozen, and buffers of floats and of integers; with "groups": 1 all are trained, as one group. Rank 0 also leaves `expected.pt`, beside the checkpoint: the fp32 weights as
DeepSpeed's own zero_to_fp32 puts them together, where the stage has one.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"  # read when DeepSpeed is imported

import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(13, 7)
        self.frozen = torch.nn.Linear(7, 7)
        self.norm = torch.nn.LayerNorm(7)
        self.deep = torch.nn.Linear(7, 11, bias=False)
        self.back = torch.nn.Linear(11, 7)
        self.head = torch.nn.Linear(7, 13, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.full((3,), 1.5))
        self.register_buffer("calls", torch.tensor(5, dtype=torch.int64))
        for parameter in self.frozen.parameters():
            parameter.requires_grad_(False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.frozen(self.embed(tokens)))
        logits = self.head(self.back(torch.nn.functional.gelu(self.deep(hidden))))
        return torch.nn.functional.cross_entropy(logits.float().view(-1, 13), tokens.view(-1))


def config_of(job: dict) -> dict:
    out = {"train_micro_batch_size_per_gpu": 2, "steps_per_print": 10**9, "zero_optimization": {"stage": job["stage"], **job.get("zero", {})},
           "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-2, "warmup_num_steps": 10}}}
    if job["precision"] != "fp32":
        out[job["precision"]] = {"enabled": True}
    if job["precision"] == "fp16":
        out["fp16"].update(loss_scale=0, initial_scale_power=job.get("scale_power", 8), loss_scale_window=2, hysteresis=2, min_loss_scale=1)
    return out


def groups_of(model: torch.nn.Module, count: int) -> list[dict]:
    trained = [p for p in model.parameters() if p.requires_grad]
    if count == 1:
        return [{"params": trained}]
    return [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]


def main(job: dict) -> None:
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    if job["precision"] == "fp16":
        get_accelerator().is_fp16_supported = lambda: True
    torch.manual_seed(1)
    model = Net().to(TYPES[job["precision"]])
    if job.get("groups") == 1:
        model.requires_grad_(True)
    optimizer = torch.optim.AdamW(groups_of(model, job.get("groups", 2)), lr=1e-2)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config_of(job))[0]
    torch.manual_seed(2 + engine.global_rank)
    for _ in range(job["steps"]):
        engine.backward(engine(torch.randint(13, (2, 5))))
        engine.step()
    engine.save_checkpoint(job["out"], client_state={"epoch": 3, "best": 0.25})
    torch.distributed.barrier()
    if engine.global_rank == 0 and job["stage"] > 0:
        weights = get_fp32_state_dict_from_zero_checkpoint(job["out"])
        torch.save({name: value.contiguous() for name, value in weights.items()}, os.path.join(job["out"], "expected.pt"))
    torch.distributed.barrier()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
