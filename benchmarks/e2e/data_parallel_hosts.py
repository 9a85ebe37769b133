#!/usr/bin/env python3
"""weft's data-parallel training against torch's between hosts, at several rates of their links: how much of the wire is hidden.

    .venv/bin/python benchmarks/e2e/data_parallel_hosts.py [--rates 0.5,1,2.5,5,10] [--rounds 3] [--results benchmarks/results]

The hosts are network namespaces (tools/netlab; needs root), one rank on each. At every rate, in turn: weft with overlap and without, with
buckets of several sizes and with one it chooses, with bf16 on the wire; torch's DistributedDataParallel, with and without its bf16 hook.
The bound is forward + max(backward, wire) + update: the three phases of one rank alone, and 2(n-1)/n of the gradient's bytes at the rate
that TCP reached just before. The second bound takes the phases of ranks that run side by side without meeting: the hosts of the lab share
this machine's processor.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.lab import Bound, enter_lab, link_rate  # noqa: E402
from benchmarks.e2e.pages import chosen, command_line, dated, facts_of, machine_line, parser_for, ratio, show, work_lines, write_results  # noqa: E402
from benchmarks.e2e.rate_plot import Line, rate_plot  # noqa: E402
from benchmarks.e2e.train_vs_torch import num_params, progress, write_init  # noqa: E402
from benchmarks.peers.contenders import (TORCH_ALONE, TORCH_BF16, TORCH_DDP, WEFT_ALONE, WEFT_APART, Contender, Place, run_round,  # noqa: E402
                                         run_rounds, same_losses, summary)

ON, OFF, AUTO, BF16 = "weft", "weft, no overlap", "weft, bucket auto", "weft, bf16 on the wire"
BOUNDS = {"alone": ("bound, one rank alone", "#555"), "apart": ("bound, ranks side by side", "#aaa")}
COLOURS = {ON: "#1f6fb4", OFF: "#7fb3dd", AUTO: "#2a9d4a", TORCH_DDP.name: "#d1495b"}


def numbers(text: str, kind: type) -> list:
    return [kind(word) for word in text.split(",")]


def contenders(o: argparse.Namespace) -> list[Contender]:
    swept = [Contender(f"weft, bucket {size:,}", bucket=size) for size in o.buckets if size != o.bucket]
    every = [Contender(ON, bucket=o.bucket), TORCH_DDP, Contender(OFF, overlap=False, bucket=o.bucket), *swept, Contender(AUTO, auto=True),
             Contender(BF16, bucket=o.bucket, wire="bf16"), TORCH_BF16, WEFT_ALONE, WEFT_APART]
    return chosen(o, every)


def bounds_of(rows: dict, fallback: dict, bits_per_s: float, o: argparse.Namespace) -> dict[str, dict]:
    """From the phases that weft timed; where it timed none, from those of Python torch on one rank, and then only that one."""
    sources = [(key, name, rows[name]["breakdown_ms"]) for key, name in (("alone", WEFT_ALONE.name), ("apart", WEFT_APART.name))
               if rows.get(name, {}).get("breakdown_ms")]
    bounds = {}
    for key, name, phases in sources or [("alone", TORCH_ALONE.name, fallback["breakdown_ms"])]:
        bound = Bound(phases, 4 * num_params(o), len(o.hosts))
        bounds[key] = {"source": name, "phases_ms": phases, "wire_ms": bound.wire_ms(bits_per_s), "fp32_ms": bound.step_ms(bits_per_s),
                       "bf16_ms": bound.step_ms(bits_per_s, "bf16")}
    return bounds


def measure_rate(rate_gbit: float, place: Place, o: argparse.Namespace, init: pathlib.Path, fallback: dict) -> dict:
    bits_per_s = link_rate(f"{round(rate_gbit * 1000)}mbit")
    progress(f"links of {rate_gbit:g} Gbit/s: TCP moves {bits_per_s / 1e9:.3f}")
    found = run_rounds(place, contenders(o), o, init, init.parent)
    exact = [one.name for one in contenders(o) if one.wire == "fp32" and not one.alone]
    same = same_losses(found, exact, len(o.hosts))
    rows = {name: summary(rounds) for name, rounds in found.items()}
    return {"rate_gbit": rate_gbit, "tcp_gbit": bits_per_s / 1e9, "same_losses": same, "rows": rows, "bounds": bounds_of(rows, fallback, bits_per_s, o)}


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    place = Place(o.weft, len(o.hosts), o.hosts)
    with tempfile.TemporaryDirectory() as temp:
        init = pathlib.Path(temp) / "init.safetensors"
        write_init(o, init)
        fallback = run_round(place, TORCH_ALONE, o, init, init.parent)
        rates = [measure_rate(rate, place, o, init, fallback) for rate in o.rates]
    return {"hosts": len(o.hosts), **facts, "rates": rates}


def bound_line(key: str, bound: dict) -> str:
    p = bound["phases_ms"]
    return (f"{BOUNDS[key][0].capitalize()}: {p['forward']:.1f} forward + max({p['backward']:.1f} backward, {bound['wire_ms']:.1f} wire) + {p['optimizer']:.1f} update = "
            f"**{bound['fp32_ms']:.1f} ms**; with bf16 on the wire {bound['bf16_ms']:.1f} ms (phases of: {bound['source']}).  ")


def section(one: dict) -> str:
    rows, bounds = one["rows"], one["bounds"]
    lines = [f"## {one['rate_gbit']:g} Gbit/s", "", f"TCP moves {one['tcp_gbit']:.3f} Gbit/s.  ", *[bound_line(key, bound) for key, bound in bounds.items()], "",
             "| | median step, ms | of the rounds, ms | of weft | of the bound | waits for communication, ms |", "|---|---|---|---|---|---|"]
    for name, row in rows.items():
        wire = "bf16" if name in (BF16, TORCH_BF16.name) else "fp32"
        of_bound = "-" if name in (WEFT_ALONE.name, WEFT_APART.name) else f"{row['median_ms'] / bounds['alone'][f'{wire}_ms']:.3f}"
        exposed = f"{row['exposed_comm_ms']:.1f}" if row.get("exposed_comm_ms") else "-"
        lines.append(f"| {name} | {row['median_ms']:.1f} | {row['lowest_ms']:.1f} to {row['highest_ms']:.1f} | {ratio(row, rows, ON)} | {of_bound} | {exposed} |")
    return "\n".join(lines)


def report(o: argparse.Namespace, result: dict, command: str, plot: str) -> str:
    sections = "\n\n".join(section(one) for one in result["rates"])
    return f"""# Data-parallel training between hosts: weft against torch

{machine_line(result, f"{result['hosts']} hosts of tools/netlab, one rank of one thread on each.")}

Command: `{command}`

{work_lines(o, result)}
losses equal bit for bit: {'; '.join(result['rates'][0]['same_losses']) or 'none compared'}.
"{ON}", "{OFF}" and "{BF16}": buckets of {o.bucket:,} elements; torch: its own 25 MiB.

The bound is forward + max(backward, wire) + update, wire being 2(n-1)/n of the gradient at the rate that TCP reached. "of the bound" takes
the phases of one rank alone. A ratio below 1 says that those phases are not the contender's own, or were timed while the machine was busier.
The lab's links let a burst of one millisecond pass at once, which counts for models much smaller than this one only.
torch refuses its bf16 hook over Gloo by name; here it is registered under another.

{f"![step time against rate]({plot})" if plot else ""}

{sections}
"""


def plot_of(result: dict) -> str:
    rates = result["rates"]
    lines = [Line(name, colour, [(one["rate_gbit"], one["bounds"][key]["fp32_ms"]) for one in rates], dashed=True)
             for key, (name, colour) in BOUNDS.items() if key in rates[0]["bounds"]]
    lines += [Line(name, colour, [(one["rate_gbit"], one["rows"][name]["median_ms"]) for one in rates]) for name, colour in COLOURS.items()
              if name in rates[0]["rows"]]
    return rate_plot(f"Step of a {result['params'] / 1e6:.1f}M GPT on {result['hosts']} hosts", lines)


def main() -> None:
    parser = parser_for(__doc__)
    parser.set_defaults(rounds=3, steps=20)
    parser.add_argument("--num-hosts", type=int, default=2)
    parser.add_argument("--rates", type=lambda text: numbers(text, float), default="0.5,1,2.5,5,10", help="of the links, in Gbit/s")
    parser.add_argument("--buckets", type=lambda text: numbers(text, int), default="250000,1000000,4000000,17000000", help="sizes to sweep, in elements")
    parser.add_argument("--in-lab", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    o.hosts = enter_lab(o.num_hosts)
    result = measure(o)
    stem = dated(f"data_parallel_hosts_n{len(o.hosts)}")
    text = report(o, result, command_line("benchmarks/e2e/data_parallel_hosts.py", sys.argv[1:]), f"{stem}.svg" if o.results else "")
    show(o, text, result)
    write_results(o, stem, text, svg=plot_of(result))


if __name__ == "__main__":
    main()
