#!/usr/bin/env python3
"""weft's losses against DeepSpeed's, step by step, in fp32, bf16 and fp16: same weights, same tokens, same settings.

    make && benchmarks/config/setup
    .venv/bin/python benchmarks/e2e/loss_vs_deepspeed.py [--precisions fp32,bf16,fp16] [--stages 1,2] [--results benchmarks/results]

Wanted: losses within 1 % at every step; in fp16, the same steps skipped and the same loss scale at every step. The scale starts so high
that the first steps overflow. With a small --window it is raised again after a few good steps and keeps riding on the edge, where a
gradient within rounding of the largest fp16 may overflow in one and not in the other; the page names the first step that differs. How soon
that must be is what --control tells: weft once more, from weights of which a single one is another by one rounding.
Exits with 1 where something wanted was not found, weft's refusal of a type included.

Both compute in the narrow type and take the loss of the logits in fp32.

DeepSpeed's stage 0 is no reference in fp16: 0.19.8 divides by the scale there what it never multiplied.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import facts_of, json_text, machine_line, parser_for, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import progress, write_init  # noqa: E402
from benchmarks.peers.contenders import Contender, Place, RoundFailed, run_round  # noqa: E402

WITHIN = 0.01


def pair_of(precision: str, stage: int, o: argparse.Namespace) -> tuple[Contender, Contender]:
    more = {"gradient_clipping": o.clip}
    if precision == "fp16":
        more["fp16"] = {"loss_scale": 0, "initial_scale_power": o.scale_power, "loss_scale_window": o.window, "hysteresis": o.hysteresis, "min_loss_scale": 1}
    same = {"stage": stage, "precision": precision, "more": more}
    return Contender(f"weft ZeRO-{stage}, {precision}", bucket=o.bucket, **same), \
        Contender(f"DeepSpeed ZeRO-{stage}, {precision}", who="deepspeed", **same)


def skips_of(result: dict, where: str) -> list[int]:
    """Numbers of the skipped steps, from 1. weft lists them; the peer says it for every step."""
    if "skipped_steps" in result:
        return sorted(result["skipped_steps"])
    if "skipped" in result:
        return [i + 1 for i, skipped in enumerate(result["skipped"]) if skipped]
    raise SystemExit(f"error: the result of {where} does not say which steps it skipped\n  what:  neither skipped_steps nor skipped is there")


def first_difference(ours: list, theirs: list) -> int | None:
    """The first step, from 1, at which two lists are not the same."""
    return next((i + 1 for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), None if len(ours) == len(theirs) else min(len(ours), len(theirs)) + 1)


def scaling(ours: dict, theirs: dict) -> dict:
    if "loss_scale" not in ours:
        raise SystemExit("error: weft's result has no loss_scale, one number for each step")
    skips = [skips_of(result, who) for result, who in ((ours, "weft"), (theirs, "DeepSpeed"))]
    return {"weft_skipped": skips[0], "deepspeed_skipped": skips[1], "same_skips": skips[0] == skips[1],
            "scale_differs_at": first_difference(ours["loss_scale"], theirs["loss_scale"]), "weft_scale": ours["loss_scale"], "deepspeed_scale": theirs["loss_scale"]}


def compared(ours: dict, theirs: dict, precision: str) -> dict:
    """weft writes null for a loss that is not finite; such a step is as wrong as can be."""
    apart = [abs(a - b) / abs(b) if a is not None else float("inf") for a, b in zip(ours["loss"], theirs["loss"])]
    row = {"steps": len(apart), "largest": max(apart), "largest_at": apart.index(max(apart)) + 1, "within": max(apart) <= WITHIN, "last": apart[-1],
           "same_bits": ours["loss_bits"] == theirs["loss_bits"], "weft_loss": ours["loss"], "deepspeed_loss": theirs["loss"]}
    return {**row, **scaling(ours, theirs)} if precision == "fp16" else row


def nudged(init: pathlib.Path) -> pathlib.Path:
    """The same weights but for the last, which is the next number that fp16 has."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(init)
    last = weights[sorted(weights)[-1]].view(-1)
    here = last[-1].to(torch.float16)
    last[-1] = torch.nextafter(here, torch.tensor(float("inf"), dtype=torch.float16)).float()
    save_file(weights, path := init.with_name("nudged.safetensors"))
    return path


def control_of(ours: dict, again: dict) -> dict:
    skips = [skips_of(result, "weft") for result in (ours, again)]
    apart = [abs(a - b) / abs(b) for a, b in zip(ours["loss"], again["loss"]) if a is not None and b is not None]
    return {"largest": max(apart), "scale_differs_at": first_difference(ours["loss_scale"], again["loss_scale"]), "same_skips": skips[0] == skips[1]}


def compare(precision: str, stage: int, o: argparse.Namespace, init: pathlib.Path) -> dict:
    place = Place(o.weft, o.world)
    weft, deepspeed = pair_of(precision, stage, o)
    try:
        progress(f"{weft.name}: {o.steps} steps")
        ours = run_round(place, weft, o, init, init.parent)
    except RoundFailed as failure:
        if not failure.refused:
            raise
        progress(f"weft refuses: {failure.why}")
        return {"refused": failure.why}
    progress(f"{deepspeed.name}: {o.steps} steps")
    row = compared(ours, run_round(place, deepspeed, o, init, init.parent), precision)
    progress(f"  largest difference {row['largest']:.2%} at step {row['largest_at']}")
    if o.control and precision == "fp16":
        progress(f"{weft.name}, one weight another: {o.steps} steps")
        row["control"] = control_of(ours, run_round(place, weft, o, nudged(init), init.parent))
    return row


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    rows = {}
    with tempfile.TemporaryDirectory() as temp:
        init = pathlib.Path(temp) / "init.safetensors"
        write_init(o, init)
        for precision in o.precisions:
            for stage in o.stages:
                rows[f"{precision}, stage {stage}"] = compare(precision, stage, o, init)
    return {"world": o.world, **facts, "within": WITHIN, "rows": rows, "met": all(fine(row) for row in rows.values())}


def fine(row: dict) -> bool:
    return "refused" not in row and row["within"] and row.get("same_skips", True) and row.get("scale_differs_at") is None


def numbers(steps: list[int]) -> str:
    return f"{len(steps)} ({', '.join(map(str, steps[:12]))}{', ...' if len(steps) > 12 else ''})" if steps else "none"


def line_of(name: str, row: dict) -> str:
    if "refused" in row:
        return f"| {name} | weft refuses: {row['refused']} | | | | no |"
    skips = scales = "-"
    if "same_skips" in row:
        ours, theirs = row["weft_skipped"], row["deepspeed_skipped"]
        skips = f"{numbers(theirs)}, the same" if row["same_skips"] else f"{len(theirs)}; weft {len(ours)}; the first {first_difference(ours, theirs) - 1} the same"
        scales = "the same at every step" if row["scale_differs_at"] is None else f"differ from step {row['scale_differs_at']} on"
    bits = ", equal bit for bit" if row["same_bits"] else ""
    return f"| {name} | {row['largest']:.4%} at step {row['largest_at']}{bits} | {row['last']:.4%} | {skips} | {scales} | {'yes' if fine(row) else 'no'} |"


def control_lines(result: dict) -> str:
    lines = ""
    for name, row in result["rows"].items():
        if control := row.get("control"):
            parted = f"loss scales part at step {control['scale_differs_at']}" if control["scale_differs_at"] else "the same steps are skipped"
            lines += f"\nweft against itself, one weight of the start another by one rounding ({name}): {parted}; losses differ by up to {control['largest']:.4%}.\n"
    return lines


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    lines = "\n".join(line_of(name, row) for name, row in result["rows"].items())
    return f"""# Losses of weft and of DeepSpeed, step by step

{machine_line(result, f"{result['world']} ranks of one thread, DeepSpeed 0.19.8, torch from the same installation.")}

Command: `{command}`

GPT of {result['params'] / 1e6:.1f}M parameters (dim {o.dim}, {o.layers} layers, {o.heads} heads, vocabulary {o.vocab}, sequence {o.seq}, micro-batch {o.micro_batch}), AdamW, gradient_clipping {o.clip:g},
{o.steps} steps from the same weights on the same tokens. fp16: initial_scale_power {o.scale_power}, loss_scale_window {o.window}, hysteresis {o.hysteresis}. Both compute in
the narrow type, and the loss of the logits in fp32.

| | largest difference of losses | at the last step | steps skipped | loss scales | as wanted |
|---|---|---|---|---|---|
{lines}

Wanted: losses within {result['within']:.0%} at every step; in fp16 the same steps skipped, and the same scale at every step.
{control_lines(result)}"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.set_defaults(steps=100)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    parser.add_argument("--precisions", type=words, default="fp32,bf16,fp16")
    parser.add_argument("--stages", type=lambda text: [int(word) for word in words(text)], default="1,2")
    parser.add_argument("--scale-power", type=int, default=24, help="fp16: the first loss scale is two to this")
    parser.add_argument("--window", type=int, default=1000, help="fp16: good steps after which the scale is doubled")
    parser.add_argument("--control", action="store_true", help="fp16: weft once more with one weight another by one rounding")
    parser.add_argument("--hysteresis", type=int, default=2, help="fp16: overflows before the scale is halved")
    parser.add_argument("--clip", type=float, default=0.0, help="gradient_clipping")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    o = parser.parse_args()
    result = measure(o)
    publish(o, f"loss_vs_deepspeed_{o.device}_n{o.world}", result, report, json=json_text(result) + "\n")
    sys.exit(0 if result["met"] else 1)


if __name__ == "__main__":
    main()
