#!/usr/bin/env python3
"""Very many tiny steps of `weft train -n 2`: memory, threads and descriptors of the ranks must not grow.

    make && .venv/bin/python tests/cli/soak.py --steps 100000

Samples /proc of every rank. What a rank has after a tenth of the steps is its measure; caches are warm by then.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ["--dim", "8", "--layers", "1", "--heads", "1", "--seq", "4", "--micro-batch", "1", "--vocab", "16", "--threads", "1", "--data", "random"]
NUM_PEERS = 1  # a rank that waits long for another opens that process (a pidfd), to see it end: once, whenever that first happens
GROWTH_BYTES, GROWTH_BYTES_A_STEP = 2 << 20, 104  # losses and times are kept for the report: 52 bytes a step, in vectors that double


@dataclasses.dataclass(frozen=True)
class Sample:
    step: int
    rss_bytes: int
    threads: int
    descriptors: int


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []  # it has ended


def sample_of(pid: int, step: int) -> Sample:
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return Sample(step, int(status["VmRSS"].split()[0]) * 1024, int(status["Threads"]), len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())))


def steps_done(metrics: pathlib.Path) -> int:
    """The number of the last whole row."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - 4096))
        rows = file.read().decode().splitlines()[1:-1]
    return int(rows[-1].split(",")[0]) if rows else 0


def soak(weft: pathlib.Path, steps: int, folder: pathlib.Path, deadline_s: float) -> dict[int, list[Sample]]:
    """The samples of each rank, by process id."""
    run = subprocess.Popen([str(weft), "train", "-n", "2", *MODEL, "--steps", str(steps), "--name", "soak"], cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    samples: dict[int, list[Sample]] = {}
    end = time.monotonic() + deadline_s
    while run.poll() is None:
        assert time.monotonic() < end, f"no end within {deadline_s} s"
        done = steps_done(folder / "runs" / "soak" / "metrics.csv")
        if steps // 10 <= done < steps - 1:  # after the last one a rank winds up, and rank 0 writes the report of all steps
            for pid in children_of(run.pid):
                try:
                    samples.setdefault(pid, []).append(sample_of(pid, done))
                except (OSError, KeyError):
                    pass  # it has ended
        time.sleep(0.2)
    assert run.returncode == 0, run.stderr.read()
    return samples


def growth(samples: list[Sample]) -> str:
    """What grew; "" for nothing."""
    first, last = samples[0], samples[-1]
    if last.rss_bytes > first.rss_bytes + GROWTH_BYTES + GROWTH_BYTES_A_STEP * (last.step - first.step):
        return f"memory: {first} -> {last}"
    if last.threads > first.threads or last.descriptors > first.descriptors + NUM_PEERS:
        return f"threads or descriptors: {first} -> {last}"
    return ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=100_000)
    options.add_argument("--weft", type=pathlib.Path, default=ROOT / "build/release/bin/weft")
    options.add_argument("--deadline-s", type=float, default=3600)
    o = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        samples = soak(o.weft, o.steps, pathlib.Path(folder), o.deadline_s)
        result = json.loads((pathlib.Path(folder) / "runs/soak/result.json").read_text())
    grown = {pid: growth(list_of) for pid, list_of in samples.items() if growth(list_of)}
    for list_of in samples.values():
        print(f"step {list_of[0].step}: {list_of[0]}\nstep {list_of[-1].step}: {list_of[-1]}")
    print(f"{result['steps']} steps, {result['step_ms']['median']:.2f} ms each: {grown or 'nothing grew'}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
