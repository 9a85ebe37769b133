#!/usr/bin/env python3
"""weft's ZeRO stages 1 to 3 on one GPU in bf16, against torch's autocast with fused AdamW and against DeepSpeed: alternately, in one run.

    WEFT_PYTHON=python3 make && python3 benchmarks/e2e/zero_cuda.py [--rounds 2] [--results benchmarks/results]

One rank: what is measured is the engine's own work beside the model's, with nothing to send. The GPT has 1.42 thousand million parameters
and takes 8 x 1024 tokens a step; the weights alone are a file of 5.7 GB in the temporary folder. DeepSpeed takes part where the
interpreter of --deepspeed can import it. weft and DeepSpeed hold weights in bf16 with an fp32 copy for the update; torch's autocast holds
them in fp32 and casts. Losses are compared with torch's, which does the same work in another mixture of types: they are near, not equal.

The limit is the floating-point operations of the step at the speed of a plain bf16 matrix product in the same run.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import chosen, facts_of, json_text, machine_line, parser_for, publish, ratio, work_lines  # noqa: E402
from benchmarks.e2e.train_vs_torch import matmul_gflops, progress, step_flops, write_init  # noqa: E402
from benchmarks.peers.contenders import Contender, Place, run_rounds, summary, willing  # noqa: E402

STAGES = (1, 2, 3)
TORCH = Contender("torch autocast, fused AdamW", who="torch", precision="bf16", alone=True)


def has_deepspeed(python: pathlib.Path) -> bool:
    done = subprocess.run([python, "-c", "import deepspeed"], capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        progress(f"without DeepSpeed: {python} cannot import it ({last}); --deepspeed names another interpreter")
    return done.returncode == 0


def contenders(o: argparse.Namespace) -> list[Contender]:
    ours = [Contender(f"weft ZeRO-{stage}", stage=stage, precision="bf16", bucket=o.bucket, alone=True) for stage in STAGES]
    theirs = [Contender(f"DeepSpeed ZeRO-{stage}", who="deepspeed", stage=stage, precision="bf16", bucket=o.deepspeed_bucket, alone=True) for stage in STAGES]
    plain = Contender("weft, stage 0", precision="bf16", alone=True)
    return chosen(o, [*ours, TORCH, *(theirs if has_deepspeed(o.deepspeed) else []), plain])


def apart(losses: list[float | None], others: list[float]) -> float:
    """weft writes null for a loss that is not finite."""
    return max(float("inf") if a is None else abs(a - b) / abs(b) for a, b in zip(losses, others))


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    place = Place(o.weft, 1)
    with tempfile.TemporaryDirectory(dir=o.scratch) as temp:
        init = pathlib.Path(temp) / "init.safetensors"
        progress("making the weights")
        write_init(o, init)
        # A start reads all weights: with one round there is nothing to lose by finding a refusal late.
        able, refused = willing(place, contenders(o), o, init, init.parent) if o.rounds > 1 else (contenders(o), {})
        found = run_rounds(place, able, o, init, init.parent)
    rows = {name: summary(rounds) for name, rounds in found.items()}
    for name in rows if TORCH.name in found else ():
        rows[name]["loss_apart"] = apart(found[name][0]["loss"], found[TORCH.name][0]["loss"])
    gflops = matmul_gflops(o, "bfloat16")
    return {**facts, "device": o.device, "tokens": o.micro_batch * o.seq, "refused": refused, "rows": rows, "matmul_gflops": gflops,
            "limit_ms": step_flops(o) / gflops / 1e6}


def table(result: dict) -> str:
    rows = result["rows"]
    lines = ["| | median step, ms | of the rounds, ms | of torch | of the limit | tokens/s | most on the device, GiB | losses differ from torch's by |", "|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        memory = f"{row['peak_device_bytes'] / 2**30:.1f}" if row.get("peak_device_bytes") else "-"
        losses = f"{row['loss_apart']:.2%} at most" if "loss_apart" in row else "-"
        lines.append(f"| {name} | {row['median_ms']:.1f} | {row['lowest_ms']:.1f} to {row['highest_ms']:.1f} | {ratio(row, rows, TORCH.name)} "
                     f"| {row['median_ms'] / result['limit_ms']:.2f} | {result['tokens'] / row['median_ms'] * 1e3:,.0f} | {memory} | {losses} |")
    return "\n".join(lines)


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    refused = "".join(f"\nLeft out, as this weft refuses it: {name}. {why}\n" for name, why in result["refused"].items())
    return f"""# ZeRO stages 1 to 3 on one device, bf16: weft against torch and DeepSpeed

{machine_line(result, "one rank.")}

Command: `{command}`

{work_lines(o, result, "bf16")}
losses compared with torch's.
{refused}
{table(result)}

Limit: the step's {result['params'] / 1e9:.2f}G parameters take {result['limit_ms']:.1f} ms at {result['matmul_gflops'] / 1e3:.0f} TFLOP/s, a plain bf16 product in this run.
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.set_defaults(rounds=2, steps=20, dim=2048, layers=24, heads=16, vocab=50304, seq=1024, micro_batch=8, bucket=50_000_000, deepspeed=pathlib.Path(sys.executable))
    parser.add_argument("--deepspeed-bucket", type=int, help="DeepSpeed's reduce_bucket_size and allgather_bucket_size, in elements")
    parser.add_argument("--scratch", type=pathlib.Path, help="where the weights are kept meanwhile; the system's temporary folder by default")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this program with a small shape")
    o = parser.parse_args()
    result = measure(o)
    publish(o, f"zero_{o.device}", result, report, json=json_text(result) + "\n")


if __name__ == "__main__":
    main()
