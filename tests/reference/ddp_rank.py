"""One rank of torch's DistributedDataParallel on the reference GPT; prints the mean loss of each step as rank 0.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python -m tests.reference.ddp_rank '{"shape": {...}, ...}'
"""

from __future__ import annotations

import json
import os
import struct
import sys

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel

from tests.reference.gpt import Gpt, GptShape, Losses, fused_adamw
from tests.reference.tokens import random_batch


def main(job: dict) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    shape = GptShape(**job["shape"])
    gpt = Gpt(shape)
    gpt.load_state_dict(load_file(job["init"]))
    model = DistributedDataParallel(Losses(gpt))
    optimizer = fused_adamw(gpt, job["lr"])
    bits = []
    for step in range(job["steps"]):
        rows = torch.from_numpy(random_batch(job["seed"], step, rank, job["micro_batch"], shape.seq, shape.vocab))
        loss = model(rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        bits.append(struct.pack(">f", (mean / world).item()).hex())
    if rank == 0:
        save_file(gpt.state_dict(), job["final"])
        print(json.dumps(bits), flush=True)
    dist.barrier()  # a rank that leaves while a peer still reduces breaks the peer's connection
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    # torch's threads may still run when the interpreter tears down, and now and then that ends in std::terminate.
    # The work is done and flushed: leave without a teardown. A rank that failed has raised and does not come here.
    os._exit(0)
