#!/usr/bin/env python3
"""weft's ZeRO stages 1, 2 and 3 against DeepSpeed's and against torch: alternately, in one run, on the same work.

    make && benchmarks/config/setup
    .venv/bin/python benchmarks/e2e/zero.py [-n 2] [--rounds 5] [--results benchmarks/results]
    .venv/bin/python benchmarks/e2e/zero.py --hosts 2 --rate 1gbit           one rank on each host of tools/netlab; needs root
    .venv/bin/python benchmarks/e2e/zero.py --hosts 2 --per-host 2           two: with a copy of stage 3's parameters in each host too

Peers: DeepSpeed at the same stages, with overlap_comm and without; DistributedDataParallel and FSDP2 over Gloo, the latter as it is by
default (stage 3) and with parameters kept after forward (stage 2); one rank alone, and one-rank worlds side by side. `weft run` tells glibc
to keep memory between steps, which makes peers faster too. So on one host they are also started by torchrun, as their users have them, and
between hosts without that setting. On one host weft takes part with torch's matrix products as well, to tell the engine from its products.
The losses of all that share the work are compared bit for bit first. DeepSpeed has its own bucket size unless --deepspeed-bucket says
another. A stage that this weft refuses is left out and named.

The limit is the sum of one rank's phases with nothing to wait for: forward, backward, and its part of the update; between hosts, half of
what is sent (2(n-1)/n of the parameters' bytes, at the rate that TCP reached) beside forward and half beside backward.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.lab import Bound, enter_lab, link_rate  # noqa: E402
from benchmarks.e2e.pages import chosen, facts_of, json_text, machine_line, parser_for, publish, ratio, work_lines  # noqa: E402
from benchmarks.e2e.train_vs_torch import num_params, progress, write_init  # noqa: E402
from benchmarks.peers.contenders import (TORCH_ALONE, TORCH_DDP, TORCH_FSDP2, TORCH_FSDP2_KEPT, TORCHRUN_DDP, WEFT_ALONE, WEFT_APART, Contender, Place, farthest_losses,  # noqa: E402
                                         run_rounds, same_losses, summary, willing)

STAGES = (1, 2, 3)
OF_DDP = 0.70
OF_ALONE = {1: 1.10, 2: 1.10, 3: 1.15}
OF_DEEPSPEED = {1: 0.35, 2: 0.35, 3: 0.33}
OF_DEEPSPEED_HOSTS = {2: 0.50}
OF_FSDP2, OF_FSDP2_HOSTS = 0.40, 0.60


OTHER_ROUNDING = "DeepSpeed ZeRO-3"  # however it is started: its sums have another order
WITHIN = 1e-3
GATHERED = "weft ZeRO-3, gathered by copies"
AGAIN = "weft ZeRO-3, room for a quarter"
COPY = "weft ZeRO-3, a copy in each host"


def weft_name(stage: int) -> str:
    return f"weft ZeRO-{stage}"


BY_TORCHRUN = ", by torchrun"
PLAIN_MEMORY = ", glibc's memory"
TORCHS_PRODUCTS = ", torch's products"


def deepspeed_name(stage: int, overlap: bool) -> str:
    return f"DeepSpeed ZeRO-{stage}{'' if overlap else ', no overlap'}"


def contenders(o: argparse.Namespace) -> list[Contender]:
    ours = [Contender(weft_name(stage), stage=stage, bucket=o.bucket) for stage in STAGES]
    lazy = [Contender(f"{weft_name(stage)}, lazy gather {'on' if on else 'off'}", stage=stage, bucket=o.bucket, lazy_gather=on)
            for stage in STAGES for on in (True, False)] if o.lazy_gather else []
    # What is the engine's doing and what its products'.
    plain = {"weft": {"matmul": "torch"}}
    ours += [Contender(weft_name(stage) + TORCHS_PRODUCTS, stage=stage, bucket=o.bucket, more=plain) for stage in STAGES] if not o.hosts else []
    alone = [WEFT_ALONE] if o.hosts else [WEFT_ALONE, dataclasses.replace(WEFT_ALONE, name=WEFT_ALONE.name + TORCHS_PRODUCTS, more=plain), TORCH_ALONE]
    # On one host the ranks read each other's slices in place; this is stage 3 as it would be without that.
    copied = [Contender(GATHERED, stage=3, bucket=o.bucket, more={"weft": {"common_parameters": False}})] if not o.hosts else []
    # Where the model does not fit beside the slices, parameters are gathered for forward and again for backward.
    again = [Contender(AGAIN, stage=3, bucket=o.bucket, more={"zero_optimization": {"stage3_max_live_parameters": num_params(o) // 4}}),
             Contender(COPY, stage=3, bucket=o.bucket, more={"zero_optimization": {"zero_hpz_partition_size": o.per_host}})] if o.per_host > 1 else []
    theirs = [Contender(deepspeed_name(stage, overlap), who="deepspeed", stage=stage, overlap=overlap, bucket=o.deepspeed_bucket)
              for stage in STAGES for overlap in (True, False)]
    # By torch's own launcher peers are as their users have them.
    if not o.hosts:
        theirs += [dataclasses.replace(one, name=one.name + BY_TORCHRUN, torchrun=True) for one in (*theirs, TORCH_FSDP2)] + [TORCHRUN_DDP]
    else:
        theirs += [dataclasses.replace(one, name=one.name + PLAIN_MEMORY, plain_memory=True) for one in (TORCH_DDP, *theirs, TORCH_FSDP2)]
    return chosen(o, [*ours, *copied, *again, *lazy, TORCH_DDP, *theirs, TORCH_FSDP2, TORCH_FSDP2_KEPT, *alone, WEFT_APART])


def limits_of(rows: dict, o: argparse.Namespace, bits_per_s: float) -> dict[str, float]:
    """By whose phases were taken; what one rank alone does, and what it does while others use the same machine."""
    phases = {name: rows[name]["breakdown_ms"] for name in (WEFT_ALONE.name, WEFT_APART.name) if rows.get(name, {}).get("breakdown_ms")}
    return {name: Bound(one, 4 * num_params(o), o.world, len(o.hosts)).zero_ms(bits_per_s) for name, one in phases.items()}


def aim(rows: dict, ours: str, theirs: str, wanted: float) -> list[dict]:
    if ours not in rows or theirs not in rows:
        return []
    pairs = [a / b for a, b in zip(rows[ours]["medians_ms"], rows[theirs]["medians_ms"])]
    found = rows[ours]["median_ms"] / rows[theirs]["median_ms"]
    return [{"ours": ours, "theirs": theirs, "wanted": wanted, "found": found, "lowest": min(pairs), "highest": max(pairs), "met": found <= wanted}]


def peers_of(stage: int, o: argparse.Namespace) -> list[tuple[str, float]]:
    """Whom a stage is to beat, and by how much. Between hosts: DeepSpeed in stage 2, FSDP2 in stage 3."""
    deepspeed = OF_DEEPSPEED_HOSTS if o.hosts else OF_DEEPSPEED
    theirs = [deepspeed_name(stage, overlap) + how for how in (BY_TORCHRUN, PLAIN_MEMORY, "") for overlap in (True, False)]
    peers = [(name, deepspeed[stage]) for name in theirs if stage in deepspeed]
    if stage == 3:
        peers += [(name, OF_FSDP2_HOSTS if o.hosts else OF_FSDP2) for name in (TORCH_FSDP2.name + BY_TORCHRUN, TORCH_FSDP2.name + PLAIN_MEMORY, TORCH_FSDP2.name)]
    if o.per_host > 1:
        peers = [(AGAIN, 1.0)] if stage == 3 else []
    if not o.hosts:
        peers += [(TORCHRUN_DDP.name, OF_DDP), (TORCH_DDP.name, OF_DDP)] if stage < 3 else []
        peers.append((WEFT_ALONE.name, OF_ALONE[stage]))
    return peers


def aims_of(rows: dict, o: argparse.Namespace) -> list[dict]:
    ours = {stage: COPY if stage == 3 and o.per_host > 1 else weft_name(stage) for stage in STAGES}
    return [line for stage in STAGES for theirs, at_most in peers_of(stage, o) for line in aim(rows, ours[stage], theirs, at_most)]


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    bits_per_s = link_rate(o.rate) if o.hosts else float("inf")
    place = Place(o.weft, o.world, o.hosts or None)
    with tempfile.TemporaryDirectory() as temp:
        init = pathlib.Path(temp) / "init.safetensors"
        write_init(o, init)
        able, refused = willing(place, contenders(o), o, init, init.parent)
        found = run_rounds(place, able, o, init, init.parent)
    together = [one.name for one in able if not one.alone]
    same = same_losses(found, [name for name in together if not name.startswith(OTHER_ROUNDING)], o.world)
    close = farthest_losses(found, [name for name in together if name.startswith(OTHER_ROUNDING)], together[0], WITHIN)
    rows = {name: summary(rounds) for name, rounds in found.items()}
    return {"world": o.world, "hosts": len(o.hosts), "tcp_gbit": bits_per_s / 1e9 if o.hosts else None, **facts, "deepspeed_bucket": o.deepspeed_bucket,
            "same_losses": same, "farthest_losses": close, "refused": refused, "rows": rows, "limits_ms": limits_of(rows, o, bits_per_s), "aims": aims_of(rows, o)}


def mib(count: int | None) -> str:
    return f"{count / 2**20:.0f}" if count else "-"


def table(result: dict) -> str:
    rows, limits = result["rows"], result["limits_ms"]
    lines = ["| | median step, ms | of the rounds, ms | of torch DDP | of one rank alone | of the limit | waits for ranks, ms | optimizer state, MiB | peak, MiB |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        limit = f"{row['median_ms'] / limits[WEFT_ALONE.name]:.2f}" if WEFT_ALONE.name in limits else "-"
        exposed = f"{row['exposed_comm_ms']:.1f}" if row.get("exposed_comm_ms") else "-"
        state = row.get("state_bytes", {})
        lines.append(f"| {name} | {row['median_ms']:.1f} | {row['lowest_ms']:.1f} to {row['highest_ms']:.1f} | {ratio(row, rows, TORCH_DDP.name)} "
                     f"| {ratio(row, rows, WEFT_ALONE.name)} | {limit} | {exposed} | {mib(state.get('optimizer', 0) + state.get('master', 0))} | {mib(row.get('peak_rss_bytes'))} |")
    return "\n".join(lines)


def aim_table(aims: list[dict]) -> str:
    lines = ["| aim | at most | found | of the rounds | met |", "|---|---|---|---|---|"]
    lines += [f"| {one['ours']} of {one['theirs']} | {one['wanted']:.2f} | **{one['found']:.3f}** | {one['lowest']:.3f} to {one['highest']:.3f} "
              f"| {'yes' if one['met'] else 'no'} |" for one in aims]
    return "\n".join(lines if aims else ["No aim can be judged: one of its two sides did not take part."])


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    limits = "; ".join(f"{ms:.1f} ms with the phases of: {name}" for name, ms in result["limits_ms"].items()) or "unknown, as one rank alone did not take part"
    on_each = "one rank of one thread" if o.per_host == 1 else f"{o.per_host} ranks of one thread"
    ranks = f"{result['hosts']} hosts of tools/netlab, {on_each} on each; TCP moves {result['tcp_gbit']:.3f} Gbit/s." if o.hosts else \
        f"{result['world']} ranks of one thread, torch from the same installation."
    refused = "".join(f"\nLeft out, as this weft refuses it: {name}. {why}\n" for name, why in result["refused"].items())
    bucket = f"{o.deepspeed_bucket:,} elements" if o.deepspeed_bucket else "its own 500,000,000"
    return f"""# ZeRO stages 1 to 3 {'between hosts' if o.hosts else 'on one host'}: weft against DeepSpeed and torch

{machine_line(result, ranks)}

Command: `{command}`

{work_lines(o, result)}
losses equal bit for bit: {'; '.join(result['same_losses']) or 'none compared'}{''.join(f"; {name}: within {far:.1e} at every step" for name, far in result['farthest_losses'].items())}.
weft: buckets of {o.bucket:,} elements; DeepSpeed 0.19.8: {bucket}; torch: its own 25 MiB.
{refused}
{aim_table(result['aims'])}

{table(result)}

Ratios are of medians. The limit is {limits}. Optimizer state has the fp32 copy of the
weights in it where one is kept: DeepSpeed's ZeRO keeps one with fp32 too. Peak resident is rank 0's, the libraries included.
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks on this host")
    parser.add_argument("--hosts", dest="num_hosts", type=int, nargs="?", const=2, help="one rank on each of so many hosts instead (2)")
    parser.add_argument("--per-host", type=int, default=1, help="ranks on each of the hosts (1)")
    parser.add_argument("--rate", default="1gbit", help="of the hosts' links")
    parser.add_argument("--deepspeed-bucket", type=int, help="DeepSpeed's reduce_bucket_size and allgather_bucket_size, in elements")
    parser.add_argument("--lazy-gather", action="store_true", help="weft with \"lazy_gather\" on and off too")
    parser.add_argument("--in-lab", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    o.hosts = enter_lab(o.num_hosts) if o.num_hosts else []
    o.world = o.num_hosts * o.per_host if o.num_hosts else o.world
    progress(f"{o.rounds} rounds of {o.steps} steps with {o.world} ranks; two steps of each first")
    result = measure(o)
    publish(o, f"zero{'_hosts' if o.hosts else ''}_n{o.world}", result, report, json=json_text(result) + "\n")


if __name__ == "__main__":
    main()
