#!/usr/bin/env python3
"""What the parameters of stage 3 take of a host's memory, whatever the number of ranks.

    make && .venv/bin/python benchmarks/e2e/zero3_memory.py [--results benchmarks/results]

While `weft train` runs, the kernel's own count is read (/proc/PID/smaps): each page once, divided among the ranks that have it mapped (Pss). Shared parameters are
the mappings named weft-fabric-common; the rest of a run is counted against the same run with a model worth nothing. SGD without momentum: no other state hides a copy.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import machine_line, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import machine_name  # noqa: E402

# 15.8M parameters in fp32: 63 MB.
LARGE = "--dim 512 --layers 5 --heads 4 --vocab 64 --seq 8"
SMALL = "--dim 16 --layers 1 --heads 2 --vocab 64 --seq 8"
CONFIG = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "optimizer": {"type": "SGD", "params": {"lr": 0.01}},
          "zero_optimization": {"stage": 3, "reduce_bucket_size": 500_000}, "weft": {"transport": "shm"}}
MIB = 1 << 20


def below(pid: int) -> list[int]:
    """The processes that it has started, and theirs."""
    parents: dict[int, list[int]] = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    found, to_visit = [], [pid]
    while to_visit:
        children = parents.get(to_visit.pop(), [])
        found += children
        to_visit += children
    return found


def pss_of(pid: int) -> tuple[int, int]:
    """Bytes of the parameters that ranks share, and of everything."""
    common, total, is_common = 0, 0, False
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
            word, _, rest = line.partition(" ")
            if not word.endswith(":"):
                is_common = "weft-fabric-common" in rest
            elif word == "Pss:":
                total += int(rest.split()[0]) * 1024
                common += int(rest.split()[0]) * 1024 if is_common else 0
    except (FileNotFoundError, ProcessLookupError):
        pass
    return common, total


def run(weft: pathlib.Path, ranks: int, shape: str, steps: int) -> dict:
    """Of all ranks together: the most that shared parameters ever took, and what everything took in the later half of the run."""
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        # What is freed goes back, so that nothing counts that is kept for later.
        env = os.environ | {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=262144"}
        words = [str(weft), "train", "-n", str(ranks), *shape.split(), *f"--micro-batch 1 --threads 1 --data random --steps {steps}".split(), "--config", "config.json",
                 "--json", "out.json"]
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log)
        samples = []
        while process.poll() is None:
            counts = [pss_of(pid) for pid in (process.pid, *below(process.pid))]  # a rank alone is the program itself
            samples.append((sum(common for common, _ in counts), sum(total for _, total in counts)))
            time.sleep(0.02)
        if process.returncode != 0:
            raise SystemExit(f"{shlex.join(words)} failed:\n{(folder / 'log').read_text()[-2000:]}")
        out = json.loads((folder / "out.json").read_text())
    # The later half: no layout is made anew. A median, because ranks do not leave at one time.
    later = samples[len(samples) // 2:]
    return {"ranks": ranks, "weights": out["params"] * 4, "planned": out["state_bytes"]["params"] * ranks, "common": statistics.median(common for common, _ in later),
            "common_most": max(common for common, _ in samples), "total": statistics.median(total for _, total in later), "num_samples": len(samples)}


def measure(weft: pathlib.Path, ranks: int, steps: int) -> dict:
    large = run(weft, ranks, LARGE, steps)
    return large | {"model": large["total"] - run(weft, ranks, SMALL, 20 * steps)["total"]}


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    table = "\n".join(f"| {row['ranks']} | {row['weights'] / MIB:.1f} | {row['planned'] / MIB:.1f} | {row['common'] / MIB:.1f} | {row['common'] / row['weights']:.3f} | "
                      f"{row['common_most'] / MIB:.1f} | {row['model'] / MIB:.1f} | {row['model'] / row['weights']:.2f} |" for row in result["rows"])
    return f"""# Stage 3: parameters in a host's memory

{machine_line(result, "ranks of one thread.")}

Command: `{command}`

`weft train {LARGE}`, fp32, SGD without momentum, ZeRO-3 on one host, {result['steps']} steps. Sums over all ranks of what the kernel counts (Pss: each page once). One
rank shares with nobody: its parameters are memory of its own.

| ranks | weights, MiB | by the plan, MiB | shared parameters, MiB | of the weights | the most of the run, MiB | all the model adds, MiB | of the weights |
|---|---|---|---|---|---|---|---|
{table}

The most: when the first step has shown in which order gradients come, parameters are laid out anew, and both layouts are there for a moment. All that the model
adds: the whole run less the same run with a model of 5,000 parameters. It has gradients and activations in it, every rank its own.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=ROOT / "build/release/bin/weft")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(device="cpu")
    o = parser.parse_args()
    load = os.getloadavg()[0]
    rows = [measure(o.weft, ranks, o.steps) for ranks in (1, 2, 3, 4)]
    publish(o, "zero3_memory", {"rows": rows, "steps": o.steps, "machine": machine_name(o), "load_before": load}, report)


if __name__ == "__main__":
    main()
