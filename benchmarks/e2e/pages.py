"""What the pages of benchmarks/e2e have in common: their options, the lines that say on which machine and which work, and how they are kept."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shlex
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.train_vs_torch import machine_name, num_params, progress  # noqa: E402

SHAPE = (("dim", 384), ("layers", 6), ("heads", 6), ("vocab", 8192), ("seq", 64), ("micro-batch", 2))


def parser_for(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=ROOT / "build/release/bin/weft")
    parser.add_argument("--reducer", type=pathlib.Path, default=ROOT / "build/release/bin/c10d_reducer", help="the peer built from benchmarks/peers")
    parser.add_argument("--deepspeed", type=pathlib.Path, default=ROOT / "build/deepspeed/bin/python", help="an interpreter that has DeepSpeed; benchmarks/config/setup makes it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--bucket", type=int, default=1_000_000, help="weft's reduce_bucket_size, in elements")
    for name, value in SHAPE:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", action="append", metavar="NAME", help="this contender alone; may be repeated")
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(device="cpu", threads=1)
    return parser


def chosen(o: argparse.Namespace, every: list) -> list:
    """The contenders of --only. A name that is nobody's would leave a table without the row one waits for."""
    unknown = set(o.only or []) - {one.name for one in every}
    if unknown:
        raise SystemExit(f"error: --only {'; '.join(sorted(unknown))}: nobody has that name\n  known: {'; '.join(one.name for one in every)}")
    return [one for one in every if not o.only or one.name in o.only]


def facts_of(o: argparse.Namespace) -> dict:
    """What every result says of its work and its machine; to be taken before the first round, for the load."""
    return {"rounds": o.rounds, "steps": o.steps, "bucket": o.bucket, "params": num_params(o), "machine": machine_name(o), "load_before": os.getloadavg()[0]}


def machine_line(result: dict, ranks: str) -> str:
    return f"{datetime.date.today()}, {result['machine']}, {os.cpu_count()} cores (load {result['load_before']:.1f} before the run), {ranks}"


def work_lines(o: argparse.Namespace, result: dict, precision: str = "fp32") -> str:
    return f"""GPT of {result['params'] / 1e6:.1f}M parameters (dim {o.dim}, {o.layers} layers, {o.heads} heads, vocabulary {o.vocab}, sequence {o.seq}, micro-batch {o.micro_batch}), {precision},
fused AdamW everywhere, {result['steps']} steps a round, {min(5, result['steps'] // 3)} of them warm-up, {result['rounds']} rounds in turn, each a fresh process group. Same weights, same tokens;"""


def ratio(row: dict, rows: dict, to: str) -> str:
    return f"{row['median_ms'] / rows[to]['median_ms']:.3f}" if to in rows else "-"


def page_of(text: str) -> str:
    """Lines that fit a page; rows of tables cannot be broken."""
    fold = textwrap.TextWrapper(width=150, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= 160 or line.startswith("|") else fold.fill(line) for line in text.split("\n"))


def command_line(program: str, words: list[str]) -> str:
    """What to type to have this again; where the result is written to is not part of it."""
    kept = [word for i, word in enumerate(words) if word not in ("--results", "--in-lab") and (i == 0 or words[i - 1] != "--results")]
    return shlex.join([program, *kept])


def show(o: argparse.Namespace, text: str, result: dict) -> None:
    print(json_text(result) if o.json else text)


def dated(stem: str) -> str:
    return f"{stem}_{datetime.date.today():%Y%m%d}"


def publish(o: argparse.Namespace, stem: str, result: dict, report, **others: str) -> None:
    """How a benchmark ends: its page, or its result as JSON, and both where --results says. report(o, result, command) makes the page."""
    program = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)
    text = report(o, result, command_line(str(program), sys.argv[1:]))
    show(o, text, result)
    write_results(o, dated(stem), text, **others)


def json_text(result: dict) -> str:
    return json.dumps({"schema": 1, **result}, indent=2)


def write_results(o: argparse.Namespace, stem: str, page: str, **others: str) -> None:
    """The page as Markdown in the folder of --results, if there is one, and what else belongs to it, by its suffix."""
    if o.results:
        o.results.mkdir(parents=True, exist_ok=True)  # not to lose a long run for want of a folder
    for suffix, text in {"md": page_of(page), **others}.items() if o.results else ():
        path = o.results / f"{stem}.{suffix}"
        path.write_text(text)
        progress(f"wrote {path}")
