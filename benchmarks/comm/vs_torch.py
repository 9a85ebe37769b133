#!/usr/bin/env python3
"""Collectives of weft beside torch.distributed's Gloo, in turn in one run, on the same sizes and ranks.

    benchmarks/comm/vs_torch.py [-n 2] [--rounds 3] [--bytes 4K,64K,1M,25M,100M] [--results FOLDER]

Each round runs `weft bench comm` (shm on its own memory, shm on foreign tensors, weft's gloo) and then the same operations through
torch.distributed with its gloo backend, each rank one thread. Times are medians over calls, of the slowest rank; the figures are
medians over rounds. The limit is the memory bandwidth that weft measures in the same run, every byte read and written once.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather"]
UNITS = {"K": 1 << 10, "M": 1 << 20}


def sizes(text: str) -> list[int]:
    return [int(word[:-1]) * UNITS[word[-1]] if word[-1] in UNITS else int(word) for word in text.split(",")]


def torch_rank(rank: int, world: int, port: int, wanted: list[int], calls: int) -> None:
    """One rank of the peer: prints its rows when it is rank 0."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    rows = []
    for operation in OPERATIONS:
        for size in wanted:
            count = size // 4
            whole = torch.zeros(count)
            part = torch.zeros(count // world)
            even = whole[: count // world * world]
            call = {"all_reduce": lambda: dist.all_reduce(whole), "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, even),
                    "all_gather": lambda: dist.all_gather_into_tensor(even, part)}[operation]
            call(), call()
            times = []
            for _ in range(calls if size > 1 << 20 else 5 * calls):
                dist.barrier()
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            slowest = torch.tensor(times, dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            rows.append({"op": operation, "bytes": size, "ms": statistics.median(slowest.tolist()) * 1e3})
    if rank == 0:
        print(json.dumps(rows), flush=True)
    dist.barrier()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_torch(world: int, wanted: str, calls: int) -> list[dict]:
    port = free_port()
    command = [sys.executable, __file__, "--torch-rank"]
    ranks = [subprocess.Popen([*command, str(rank), "-n", str(world), "--port", str(port), "--bytes", wanted, "--calls", str(calls)],
                              stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
             for rank in range(world)]
    out = ranks[0].communicate(timeout=900)[0]
    for rank in ranks:
        if rank.wait(timeout=60) != 0:
            raise SystemExit("torch's ranks failed")
    return json.loads(out)


def run_weft(weft: str, world: int, wanted: str, calls: int) -> dict:
    command = [weft, "bench", "comm", "--op", ",".join(OPERATIONS), "--bytes", wanted, "--transport", "shm,shm-staged,gloo", "-n", str(world),
               "--iters", str(calls), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout)


def collect(options) -> tuple[dict, list[float]]:
    times: dict[tuple[str, int, str], list[float]] = {}
    limits: dict[tuple[str, int], list[float]] = {}
    memory = []
    for number in range(options.rounds):
        found = run_weft(options.weft, options.world, options.bytes, options.calls)
        memory.append(found["memory_gbs"])
        for row in found["rows"]:
            times.setdefault((row["op"], row["bytes"], row["transport"]), []).append(row["ms"])
            if row["limit_gbs"] > 0:
                limits.setdefault((row["op"], row["bytes"]), []).append(row["ms"] * row["busbw_gbs"] / row["limit_gbs"])
        for row in run_torch(options.world, options.bytes, options.calls):
            times.setdefault((row["op"], row["bytes"], "torch"), []).append(row["ms"])
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    median = {key: statistics.median(values) for key, values in times.items()}
    return {"ms": median, "limit": {key: statistics.median(values) for key, values in limits.items()}}, memory


def table(found: dict, wanted: list[int]) -> str:
    lines = ["| operation | bytes | torch gloo ms | weft shm ms | ratio | weft shm, foreign tensors ms | ratio | weft gloo ms | ratio | limit ms | shm to limit |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for operation in OPERATIONS:
        for size in wanted:
            ms = {name: found["ms"][operation, size, name] for name in ("torch", "shm", "shm-staged", "gloo")}
            limit = found["limit"].get((operation, size), 0)
            cells = [operation, f"{size:,}", f"{ms['torch']:.3f}"]
            for name in ("shm", "shm-staged", "gloo"):
                cells += [f"{ms[name]:.3f}", f"{ms['torch'] / ms[name]:.1f}x"]
            lines.append("| " + " | ".join([*cells, f"{limit:.3f}", f"{ms['shm'] / limit:.2f}x" if limit else "-"]) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="world", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", default="4K,64K,1M,25M,100M")
    parser.add_argument("--calls", type=int, default=20, help="of each size above 1 MiB; five times as many below")
    parser.add_argument("--weft", default=str(ROOT / "build/release/bin/weft"))
    parser.add_argument("--results", metavar="FOLDER", help="also write a dated file there")
    parser.add_argument("--torch-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_rank is not None:
        torch_rank(options.torch_rank, options.world, options.port, sizes(options.bytes), options.calls)
        return 0
    found, memory = collect(options)
    text = (f"{options.world} ranks x 1 thread, fp32, {options.rounds} rounds, {platform.machine()}, {os.cpu_count()} cores; memory "
            f"{statistics.median(memory):.1f} GB/s with all ranks copying at once\n\n{table(found, sizes(options.bytes))}\n")
    print(text)
    if options.results:
        name = pathlib.Path(options.results) / f"comm_vs_torch_n{options.world}_{datetime.date.today():%Y%m%d}.md"
        name.write_text("# Collectives beside torch.distributed's Gloo\n\n    benchmarks/comm/vs_torch.py " + " ".join(sys.argv[1:]) + "\n\n" + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
