#!/usr/bin/env python3
"""One rank that saves and loads the reference GPT and its optimizer as a peer does. A peer for benchmarks/checkpoint.

    weft run -n 2 -- python benchmarks/peers/checkpoint_rank.py '{"how": "dcp", "shape": {...}, "saves": 3, "folder": "s", "out": "r.json"}'

`how` is "torch.save" (all by rank 0, as under DistributedDataParallel), "dcp" and "dcp async" (torch.distributed.checkpoint of what FSDP2 has
sharded, each rank its part), or "deepspeed" (ZeRO-2; its interpreter is made by benchmarks/config/setup).

With "saves" rank 0 leaves, in seconds: `stopped_s`, how long each save kept the caller; `durable_s`, until its bytes were on the disk, sync(2)
included where the peer does not ask for it. Without it: `load_s`, which is that of a program that has just built its model.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import time

JOB = json.loads(sys.argv[1])
if JOB["how"] == "deepspeed":
    os.environ["DS_ACCELERATOR"] = "cpu"  # read when DeepSpeed is imported
    import deepspeed

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from benchmarks.checkpoint.disk import bytes_in  # noqa: E402
from benchmarks.peers.rank import leave  # noqa: E402
from tests.reference.gpt import Gpt, GptShape, Losses, fused_adamw  # noqa: E402


class TorchSave:
    def __init__(self, model: Losses) -> None:
        self.model, self.optimizer = model, fused_adamw(model, 1e-4)

    def train(self, rows: torch.Tensor) -> None:
        self.model(rows).backward()
        self.optimizer.step()

    def state(self) -> dict:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def save(self, folder: str) -> None:
        if dist.get_rank() == 0:
            os.makedirs(folder, exist_ok=True)
            torch.save(self.state(), f"{folder}/state.pt")
        dist.barrier()

    def finish(self) -> None:
        """What goes on behind the caller's back is over."""

    def load(self, folder: str) -> None:
        state = torch.load(f"{folder}/state.pt", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class Dcp(TorchSave):
    def __init__(self, model: Losses) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for i in range(model.gpt.shape.layers):
            fully_shard(getattr(model.gpt, f"block{i}"), mesh=mesh)
        super().__init__(fully_shard(model, mesh=mesh))

    def state(self) -> dict:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self, folder: str) -> None:
        import torch.distributed.checkpoint as dcp

        dcp.save(self.state(), checkpoint_id=folder)

    def load(self, folder: str) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        state = self.state()
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


class DcpAsync(Dcp):
    pending = None

    def save(self, folder: str) -> None:
        import torch.distributed.checkpoint as dcp

        self.pending = dcp.async_save(self.state(), checkpoint_id=folder)

    def finish(self) -> None:
        if self.pending is not None:
            self.pending.result()
            self.pending = None


class DeepSpeed:
    def __init__(self, model: Losses) -> None:
        adamw = {"lr": 1e-4, "torch_adam": True, "fused": True}
        config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "optimizer": {"type": "AdamW", "params": adamw},
                  "zero_optimization": {"stage": 2}, "steps_per_print": 10**9}
        self.engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]

    def train(self, rows: torch.Tensor) -> None:
        self.engine.backward(self.engine(rows))
        self.engine.step()

    def save(self, folder: str) -> None:
        self.engine.save_checkpoint(folder)

    def finish(self) -> None:
        pass

    def load(self, folder: str) -> None:
        self.engine.load_checkpoint(folder)


PEERS = {"torch.save": TorchSave, "dcp": Dcp, "dcp async": DcpAsync, "deepspeed": DeepSpeed}


def seconds(action) -> float:
    dist.barrier()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def save_once(peer, folder: str) -> tuple[float, float]:
    if dist.get_rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        os.sync()
    stopped_s = seconds(lambda: peer.save(folder))
    behind_s = seconds(lambda: (peer.finish(), os.sync()))
    return stopped_s, stopped_s + behind_s


def main(job: dict) -> None:
    torch.set_num_threads(1)
    if job["how"] == "deepspeed":
        deepspeed.init_distributed("gloo")
    else:
        dist.init_process_group("cpu:gloo")
    torch.manual_seed(0)
    shape = GptShape(**job["shape"])
    peer = PEERS[job["how"]](Losses(Gpt(shape)))
    if job.get("saves"):
        peer.train(torch.randint(shape.vocab, (1, shape.seq + 1)))
        saves = [save_once(peer, job["folder"]) for _ in range(job["saves"])]
        fields = {"stopped_s": [one[0] for one in saves], "durable_s": [one[1] for one in saves], "bytes": bytes_in(job["folder"])}
    else:
        fields = {"load_s": seconds(lambda: (peer.load(job["folder"]), dist.barrier()))}
    if dist.get_rank() == 0:
        pathlib.Path(job["out"]).write_text(json.dumps(fields))
    leave()


if __name__ == "__main__":
    main(JOB)
