#!/usr/bin/env python3
"""`weft train` against the same loop in Python torch with fused AdamW: alternately, in one run, on the same work.

Prints both medians, their ratio, and how far each is from the limit: the floating-point operations of the step at the speed of a
plain matrix product measured in the same run, torch's or weft's, whichever is quicker. The losses of the two are compared first: a faster
loop with other losses proves nothing.

    make && .venv/bin/python benchmarks/e2e/train_vs_torch.py [--rounds 5] [--results benchmarks/results]
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

WARM_UP = 5  # steps left out on both sides, as weft's own step_ms does
LR = 1e-4
SEED = 1


def shape_of(o: argparse.Namespace) -> dict[str, int]:
    return {"dim": o.dim, "layers": o.layers, "heads": o.heads, "vocab": o.vocab, "seq": o.seq}


def run_weft(weft: pathlib.Path, o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> dict:
    command = [str(weft), "train", "--data", "random", "--steps", str(o.steps), "--threads", str(o.threads), "--device", o.device,
               "--micro-batch", str(o.micro_batch), "--seed", str(SEED), "--lr", str(LR), "--warmup", "0", "--init", str(init), "--json", "-", "--runs", str(folder)]
    for name, value in shape_of(o).items():
        command += [f"--{name}", str(value)]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {"median_ms": result["step_ms"]["median"], "min_ms": result["step_ms"]["min"], "loss_bits": result["loss_bits"],
            "peak_rss_bytes": result["peak_rss_bytes"], "gflops": result["peak_flops_per_s"] / 1e9}


def peer_main(o: argparse.Namespace) -> None:
    """The peer, in a process of its own so that it starts as cold as weft does. Prints the same JSON fields."""
    import resource
    import struct

    import torch
    from safetensors.torch import load_file

    from tests.reference.gpt import Gpt, GptShape, fused_adamw
    from tests.reference.tokens import random_batch

    torch.set_num_threads(o.threads)
    model = Gpt(GptShape(**shape_of(o)))
    model.load_state_dict(load_file(o.init))
    model.to(o.device)
    optimizer = fused_adamw(model, LR)
    batches = [torch.from_numpy(random_batch(SEED, step, 0, o.micro_batch, o.seq, o.vocab)) for step in range(o.steps)]
    times, bits = [], []
    for rows in batches:
        start = time.perf_counter()
        rows = rows.to(o.device)
        loss = model.loss(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        times.append((time.perf_counter() - start) * 1e3)
        bits.append(struct.pack(">f", value).hex())
    timed = times[WARM_UP:]
    print(json.dumps({"median_ms": statistics.median(timed), "min_ms": min(timed), "loss_bits": bits,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def run_peer(o: argparse.Namespace, init: pathlib.Path) -> dict:
    command = [sys.executable, __file__, "--peer", "--steps", str(o.steps), "--threads", str(o.threads), "--device", o.device,
               "--micro-batch", str(o.micro_batch), "--init", str(init)]
    for name, value in shape_of(o).items():
        command += [f"--{name}", str(value)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def write_init(o: argparse.Namespace, path: pathlib.Path) -> None:
    import torch
    from safetensors.torch import save_file

    from tests.reference.gpt import Gpt, GptShape

    torch.manual_seed(0)
    save_file(Gpt(GptShape(**shape_of(o))).state_dict(), path)


def matmul_gflops(o: argparse.Namespace, dtype: str = "float32") -> float:
    """The best of several plain matrix products, large enough to be limited by arithmetic."""
    import torch

    torch.set_num_threads(o.threads)
    size = 1536 if o.device == "cpu" else 8192
    a, b = (torch.randn(size, size, device=o.device, dtype=getattr(torch, dtype)) for _ in range(2))
    best = 0.0
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(a, b)[0, 0].item()
        best = max(best, 2 * size**3 / (time.perf_counter() - start) / 1e9)
    return best


def step_flops(o: argparse.Namespace) -> float:
    """Six per weight that multiplies, per token (forward 2, backward 4), plus attention's two products."""
    tokens = o.micro_batch * o.seq
    return 6.0 * tokens * (o.layers * 12 * o.dim**2 + o.vocab * o.dim) + 6.0 * tokens * o.layers * 2 * o.seq * o.dim


def num_params(o: argparse.Namespace) -> int:
    return o.layers * (12 * o.dim**2 + 13 * o.dim) + (2 * o.vocab + o.seq) * o.dim + 2 * o.dim


def machine_name(o: argparse.Namespace) -> str:
    if o.device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(o: argparse.Namespace) -> dict:
    rows = {"weft": [], "torch": []}
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        init = folder / "init.safetensors"
        write_init(o, init)
        for i in range(o.rounds):
            # Who goes first changes each round, so that a drift of the machine falls on both.
            for who in ("weft", "torch") if i % 2 == 0 else ("torch", "weft"):
                rows[who].append(run_weft(o.weft, o, init, folder) if who == "weft" else run_peer(o, init))
                progress(f"round {i + 1}/{o.rounds}  {who:5s}  median {rows[who][-1]['median_ms']:7.1f} ms  fastest {rows[who][-1]['min_ms']:7.1f} ms")
        if o.threads == 1 and o.device == "cpu":
            assert rows["weft"][0]["loss_bits"] == rows["torch"][0]["loss_bits"], "the two did not do the same work: losses differ"
    gflops = max(matmul_gflops(o), *(row["gflops"] for row in rows["weft"]))
    medians = {who: statistics.median(row["median_ms"] for row in rows[who]) for who in rows}
    return {"rounds": o.rounds, "steps": o.steps, "threads": o.threads, "machine": machine_name(o), "device": o.device,
            "weft_ms": medians["weft"], "torch_ms": medians["torch"],
            "weft_min_ms": min(row["min_ms"] for row in rows["weft"]), "torch_min_ms": min(row["min_ms"] for row in rows["torch"]),
            "ratio": medians["weft"] / medians["torch"],
            "pair_ratios": [a["median_ms"] / b["median_ms"] for a, b in zip(rows["weft"], rows["torch"])],
            "limit_ms": step_flops(o) / (gflops * 1e9) * 1e3, "matmul_gflops": gflops,
            "weft_rss_bytes": rows["weft"][0]["peak_rss_bytes"], "torch_rss_bytes": rows["torch"][0]["peak_rss_bytes"]}


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    return f"""# One-rank training step: weft against Python torch

{datetime.date.today()}, {result['machine']}, {f"{o.threads} thread(s)" if o.device == "cpu" else "one GPU"}, torch from the same installation.
{"Losses compared bit for bit first." if o.device == "cpu" and o.threads == 1 else "Losses not compared here: tests/numerics does."}

Command: `{command}`

GPT of {num_params(o) / 1e6:.1f}M parameters (dim {o.dim}, {o.layers} layers, {o.heads} heads, vocabulary {o.vocab}, sequence {o.seq}, micro-batch {o.micro_batch}), fp32,
fused AdamW on both sides, {result['steps']} steps a round of which {WARM_UP} are warm-up, {result['rounds']} rounds, alternately.

| | median step, ms | fastest step, ms | of the limit | peak resident, MiB |
|---|---|---|---|---|
| weft train | {result['weft_ms']:.1f} | {result['weft_min_ms']:.1f} | {result['limit_ms'] / result['weft_ms']:.0%} | {result['weft_rss_bytes'] / 2**20:.0f} |
| Python torch | {result['torch_ms']:.1f} | {result['torch_min_ms']:.1f} | {result['limit_ms'] / result['torch_ms']:.0%} | {result['torch_rss_bytes'] / 2**20:.0f} |

Ratio weft / torch: **{result['ratio']:.3f}** (per pair of rounds: {', '.join(f'{r:.3f}' for r in result['pair_ratios'])}).
Limit: the step's {step_flops(o) / 1e9:.1f} GFLOP at {result['matmul_gflops']:.0f} GFLOP/s (the quicker of torch's and weft's plain fp32 products in this run) = {result['limit_ms']:.1f} ms.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=ROOT / "build/release/bin/weft")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for name, value in (("dim", 384), ("layers", 6), ("heads", 4), ("vocab", 8192), ("seq", 64), ("micro-batch", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--init", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer_main(arguments)
        return
    result = measure(arguments)
    words = [word for i, word in enumerate(sys.argv) if i > 0 and "--results" not in (word, sys.argv[i - 1])]
    text = report(arguments, result, " ".join(["benchmarks/e2e/train_vs_torch.py", *words]))
    print(json.dumps({"schema": 1, **result}, indent=2) if arguments.json else text)
    if arguments.results:
        path = arguments.results / f"train_vs_torch_{arguments.device}_{datetime.date.today():%Y%m%d}.md"
        path.write_text(text)
        progress(f"wrote {path}")


if __name__ == "__main__":
    main()
