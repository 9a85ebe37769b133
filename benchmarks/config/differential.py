#!/usr/bin/env python3
"""Reads thousands of random configs with DeepSpeed's reader and with `weft check`, and compares what they say.

    benchmarks/config/setup && build/deepspeed/bin/python benchmarks/config/differential.py --count 5000 --seed 1

A failure: DeepSpeed refuses a config in which weft finds no error; weft says DeepSpeed refuses one that it takes; both take it and a
setting comes out different. That weft refuses what DeepSpeed takes is counted by rule, not a failure; docs/config_differences.md has
the reasons. Exit 1 with failures.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/config"), str(pathlib.Path(__file__).resolve().parent)]

import deepspeed_reader
from random_config import Generator, Writer
from same_values import compared

BATCH = 250
# DeepSpeed finds these when the engine is built, not while it reads; its reader cannot be asked.
ENGINE = {f"conflicts/{name}" for name in ("prescale-reduce-scatter", "odd-gather-bucket", "param-dtype", "unmanaged-overlap",
                                           "contiguous-checkpoints", "lamb-static-scale", "norm-needs-no-clipping")}


@dataclasses.dataclass
class Failure:
    kind: str
    detail: str
    text: str
    world: int
    place: str


def is_engine(rule: str) -> bool:
    return rule in ENGINE or rule.startswith("arguments/")


class Comparison:
    def __init__(self) -> None:
        self.counts: collections.Counter = collections.Counter()
        self.stricter: collections.Counter = collections.Counter()
        self.failures: list[Failure] = []

    def add(self, place: str, text: str, world: int, weft: dict, deepspeed: dict) -> None:
        errors = [p for p in weft["problems"] if p["severity"] == "error"]
        claims = [p for p in errors if p["deepspeed_refuses"] and not is_engine(p["rule"])]
        self.counts["accepted by DeepSpeed" if deepspeed["accepted"] else "refused by DeepSpeed"] += 1

        def fail(kind: str, detail: str) -> None:
            self.failures.append(Failure(kind, detail, text, world, place))

        if not deepspeed["accepted"]:
            return None if errors else fail("missed refusal", deepspeed["error"])
        if claims:
            return fail("false refusal", "; ".join(f"{p['rule']} {p['path']}: {p['message']}" for p in claims))
        for rule in {p["rule"] for p in errors if not is_engine(p["rule"])}:
            self.stricter[rule] += 1
        self.values(weft, deepspeed, {p["path"] for p in errors}, fail)
        return None

    def values(self, weft: dict, deepspeed: dict, wrong: set[str], fail) -> None:
        for path, answer, ours, theirs in compared(weft.get("resolved") or {}, deepspeed["values"], wrong):
            self.counts["values equal" if answer == "yes" else f"values {answer}"] += 1
            if answer == "no":
                fail("value", f"{path}: weft {ours!r}, DeepSpeed {theirs!r}")


def read_with_weft(weft: str, files: list[pathlib.Path], world: int) -> list[dict]:
    command = [weft, "check", "--json", "--no-env", "--lang", "en", "--world", str(world), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode not in (0, 1, 2) or not done.stdout:
        raise SystemExit(f"weft ended with {done.returncode}: {done.stderr[-2000:]}")
    reports = json.loads(done.stdout)
    return reports["files"] if "files" in reports else [reports]


def run(arguments: argparse.Namespace, folder: pathlib.Path) -> Comparison:
    comparison = Comparison()
    for number, start in enumerate(range(0, arguments.count, BATCH)):
        world = 1 + (arguments.seed * 7 + number) % 16
        generator = Generator(arguments.seed * 1_000_003 + start, world)
        texts = [Writer(generator.rng).text(generator.config()) for _ in range(min(BATCH, arguments.count - start))]
        files = [folder / f"{i}.json" for i in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text.encode())
        for i, report in enumerate(read_with_weft(arguments.weft, files, world)):
            comparison.add(f"seed {arguments.seed}, config {start + i}", texts[i], world, report, deepspeed_reader.read(str(files[i]), world))
    return comparison


def show(comparison: Comparison, limit: int) -> None:
    rows = [*sorted(comparison.counts.items()), *(("weft is stricter: " + rule, n) for rule, n in comparison.stricter.most_common())]
    rows += [("FAILED: " + kind, n) for kind, n in collections.Counter(f.kind for f in comparison.failures).most_common()]
    for name, count in rows:
        print(f"{name:<50}{count:>9}")
    for failure in comparison.failures[:limit]:
        print(f"\n=== {failure.kind} ({failure.place}, world {failure.world}): {failure.detail}\n{failure.text}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weft", default=str(ROOT / "build/release/bin/weft"))
    parser.add_argument("--show", type=int, default=10, help="failures printed with their text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft_differential_") as folder:
        comparison = run(arguments, pathlib.Path(folder))
    show(comparison, arguments.show)
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
