"""The dated file that tools/nightly leaves in benchmarks/results: a section for each item, the newest one of the day."""

from __future__ import annotations

import dataclasses
import datetime
import os
import subprocess
from pathlib import Path

from testing.nightly_table import Item
from testing.results import write_whole

TAIL_LINES = 12


@dataclasses.dataclass(frozen=True)
class Outcome:
    item: Item
    seconds: float
    how: str  # "passed", or how it failed
    tail: list[str]


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def commit(root: Path) -> str:
    done = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def section(root: Path, outcome: Outcome) -> str:
    machine = f"commit {commit(root)}, {processor()}, {len(os.sched_getaffinity(0))} cores"
    tail = "\n".join(outcome.tail[-TAIL_LINES:])
    return f"## {outcome.item.name}: {outcome.how} in {outcome.seconds:.0f} s\n\n{machine}\n\n```\n{outcome.item.command}\n\n{tail}\n```\n"


def sections_of(text: str) -> dict[str, str]:
    found = {}
    for part in text.split("\n## ")[1:]:
        found[part.partition(":")[0]] = f"## {part.rstrip()}\n"
    return found


def keep(root: Path, outcome: Outcome, today: datetime.date) -> Path:
    path = root / "benchmarks/results" / f"nightly_{today:%Y%m%d}.md"
    found = sections_of(path.read_text(encoding="utf-8")) if path.exists() else {}
    found[outcome.item.name] = section(root, outcome)
    write_whole(path, f"# What is too long for CI, {today}\n\n" + "\n".join(found[name] for name in sorted(found)))
    return path
