#!/usr/bin/env python3
"""Makes run folders as a training would leave them, for the tests of what shows a run, and for trying the page out.

    tests/monitor/fake_run.py DIR [--steps 400] [--ranks 8] [--live SECONDS_A_STEP] [--slow RANK] [--gpu]

With --live it goes on writing, a row each so many seconds, until it is stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import time
from typing import Optional

GIB = 2**30


class FakeRun:
    """A run folder that is written step by step. `unix_s` of step s is start_s + s * step_s, so that files can be of the past."""

    def __init__(self, folder: pathlib.Path, ranks: int = 2, step_s: float = 0.2, start_s: Optional[float] = None, slow: Optional[int] = None, gpu: bool = False):
        self.folder, self.ranks, self.step_s, self.slow, self.gpu = pathlib.Path(folder), ranks, step_s, slow, gpu
        self.start_s = time.time() if start_s is None else start_s
        self.step = 0
        self.random = random.Random(1)
        self.folder.mkdir(parents=True, exist_ok=True)

    def publish(self, name: str, value: object) -> None:
        """As weft does it: readers see the old file or the new one."""
        path = self.folder / (name + ".tmp")
        path.write_text(json.dumps(value))
        path.rename(self.folder / name)

    def result(self, status: str = "running", **more) -> None:
        device = "cuda" if self.gpu else "cpu"
        self.publish("result.json", {"schema": 1, "name": self.folder.name, "status": status, "device": device, "data": "corpus", "params": 124_000_000,
                                     "world": self.ranks, "stage": 2, "tokens_per_step": 8192, "device_memory_bytes": 80 * GIB, "host_memory_bytes": 64 * GIB, "threads": 1, "step_ms": {"median": 1}, "loss": []} | more)

    def row(self, step: int, **changes) -> dict:
        noise = self.random.gauss
        step_ms = max(1.0, self.step_s * 1000 * (1 + 0.03 * noise(0, 1)))
        wait = step_ms * max(0.01, 0.09 + 0.02 * noise(0, 1) + (0.08 if self.slow is not None else 0))
        loss = 2.1 + 8.5 * math.exp(-step / 60) + 1.2 * math.exp(-step / 2000) + 0.06 * noise(0, 1)
        saving = step_ms * 0.6 if step % 100 == 0 else 0.0
        row = {"step": step, "samples": step * 16, "loss": loss, "lr": 3e-4 * min(1.0, step / 100), "grad_norm": 1.2 + abs(noise(0, 0.3)),
               "samples_per_s": 16e3 / step_ms, "tokens_per_s": 8192e3 / step_ms, "step_ms": step_ms + saving, "forward_ms": step_ms * 0.30,
               "backward_ms": step_ms * 0.52, "optimizer_ms": step_ms * 0.12, "exposed_comm_ms": wait, "data_ms": step_ms * 0.01,
               "checkpoint_ms": saving, "other_ms": step_ms * 0.05, "skipped_steps": 0, "flops_per_s": 3.1e14, "mfu": 0.41 + 0.01 * noise(0, 1),
               "sent_bytes": 2.5e8, "rss_bytes": 3.1 * GIB + 2e6 * min(step, 300), "cpu_percent": 102.0, "unix_s": self.start_s + step * self.step_s,
               "step_ms_min": step_ms * 0.99, "step_ms_mean": step_ms, "step_ms_max": step_ms * 1.01, "busy_ms_min": step_ms * 0.7,
               "busy_ms_mean": step_ms * 0.8, "busy_ms_max": step_ms * 0.95, "waits_ms_max": wait * 1.6, "sent_reduce_bytes": 1.5e8,
               "sent_gather_bytes": 1e8, "sent_loss_bytes": 400.0}
        if self.gpu:
            row |= {"device_bytes": 41.0 * GIB, "device_reserved_bytes": 47.5 * GIB, "gpu_percent": 93 + noise(0, 1.5), "device_fragmentation": 1 - 41.0 / 47.5}
        return row | changes

    def add_rows(self, count: int, **changes) -> None:
        with open(self.folder / "metrics.jsonl", "a") as out:
            for _ in range(count):
                self.step += 1
                out.write(json.dumps(self.row(self.step, **changes)) + "\n")

    def rank(self, rank: int) -> dict:
        step_ms = self.step_s * 1000
        wait = step_ms * (0.02 if rank == self.slow else 0.10 + 0.015 * (rank % 5))
        if self.slow is not None and rank != self.slow and rank % 7 == 3:
            wait = step_ms * 0.29
        out = {"rank": rank, "host": f"node-{'abcdefgh'[rank // 8 % 8]}", "step_ms": step_ms, "data_ms": 0.4, "forward_ms": step_ms * 0.3,
               "backward_ms": step_ms * 0.5, "optimizer_ms": step_ms * 0.1, "exposed_comm_ms": wait, "checkpoint_ms": 0, "busy_ms": step_ms - wait,
               "rss_bytes": 3 * GIB, "cpu_percent": 99.0}
        if self.gpu:
            out |= {"device_bytes": 41 * GIB, "device_reserved_bytes": 47.5 * GIB, "gpu_percent": 92.0}
        return out

    def write_ranks(self, missing: tuple[int, ...] = (), **changes) -> None:
        slow = [] if self.slow is None else [{"rank": self.slow, "phase": "backward", "where": "blocks.3", "percent": 12.5, "ms": 14.0, "since_step": max(1, self.step - 40)}]
        self.publish("ranks.json", {"schema": 1, "step": self.step, "unix_s": self.start_s + self.step * self.step_s, "world": self.ranks,
                                    "ranks": [self.rank(r) for r in range(self.ranks) if r not in missing], "slow": slow} | changes)

    def log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.start_s + self.step * self.step_s))
        with open(self.folder / "log.txt", "a") as out:
            out.write(f"{stamp} {text}\n")

    def write_all(self, steps: int) -> "FakeRun":
        """A run that is under way, its last step now unless start_s says otherwise."""
        self.result()
        self.log("[weft rank 0] training 124.0M parameters on corpus")
        for done in range(0, steps, 100):
            self.add_rows(min(100, steps - done))
            if steps <= 5000:
                self.log(f"[weft rank 0] step {self.step}: {self.step_s * 1000:.1f} ms a step")
        if self.slow is not None:
            self.log(f"[weft rank 0] [WARN] rank {self.slow} is 12.5 % slower than the others in backward (blocks.3)")
        self.log("[weft rank 0] saved step %d in 1.2 s" % self.step)
        self.write_ranks()
        return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--step-s", type=float, default=0.2)
    parser.add_argument("--live", type=float, metavar="SECONDS")
    parser.add_argument("--slow", type=int)
    parser.add_argument("--gpu", action="store_true")
    arguments = parser.parse_args()
    run = FakeRun(arguments.folder, arguments.ranks, arguments.step_s, time.time() - arguments.steps * arguments.step_s, arguments.slow, arguments.gpu)
    run.write_all(arguments.steps)
    while arguments.live:
        time.sleep(arguments.live)
        run.start_s = time.time() - (run.step + 1) * run.step_s
        run.add_rows(1)
        run.write_ranks()


if __name__ == "__main__":
    os.umask(0o022)
    main()
