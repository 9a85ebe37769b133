#!/usr/bin/env python3
"""How long `weft check` takes for a long config, from the start of the process to its end; beside it, DeepSpeed's reader.

    benchmarks/config/check_time.py [--runs 50] [--weft PATH] [--json]

The limit is 30 ms for about 300 lines. DeepSpeed's time is that of reading alone, in a process that has imported it already, and is
left out where this interpreter has no deepspeed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_MS = 30.0
# One of a kind: two precisions, an old form, a feature that weft refuses.
LEFT_OUT = {"fp16.enabled", "sequence_parallel_size", "data_parallel_size", "bfloat16"}


def long_config() -> dict:
    """Every setting weft does not refuse, at its default, and a long list of modules: some 300 lines."""
    table = tomllib.loads((ROOT / "weft/config/settings.toml").read_text())
    config: dict = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    for section in table["section"]:
        if section.get("standing") == "refused" or section["path"] == "weft":
            continue
        target = config
        for name in section["path"].split(".") if section["path"] else []:
            target = target.setdefault(name, {})
        for row in section["keys"]:
            path = f"{section['path']}.{row['key']}".strip(".")
            if "default" in row and path not in LEFT_OUT and not {"removed", "deprecated"} & row.keys() and row.get("standing") != "refused":
                target[row["key"]] = row["default"]
    config["bf16"] = {"enabled": True}
    config["zero_optimization"]["stage"] = 2
    config["optimizer"] |= {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}}
    config["zero_optimization"]["leaf_module"]["names"] = [f"model.layers.{i}.mlp" for i in range(80)]
    return config


def times_ms(action, runs: int) -> list[float]:
    out = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        out.append((time.perf_counter() - start) * 1e3)
    return out


def deepspeed_reader(file: str):
    """Reads the file with DeepSpeed; None where it is not installed."""
    if importlib.util.find_spec("deepspeed") is None:
        return None
    sys.path.insert(0, str(ROOT / "tests/config"))
    import deepspeed_reader as reader

    first = reader.read(file, 8)
    assert first["accepted"], first["error"]
    return lambda: reader.read(file, 8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=str(ROOT / "build/release/bin/weft"))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "long.json"
        file.write_text(json.dumps(long_config(), indent=2) + "\n")
        lines = len(file.read_text().splitlines())
        command = [o.weft, "check", "--no-env", "--world", "8", "--fail-on", "error", str(file)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        check = functools.partial(subprocess.run, command, stdout=subprocess.DEVNULL, check=False)
        actions = {"weft check": check, "DeepSpeed's reader alone": deepspeed_reader(str(file))}
        rows = {name: times_ms(action, o.runs) for name, action in actions.items() if action is not None}
    summary = {name: {"median_ms": statistics.median(row), "min_ms": min(row)} for name, row in rows.items()}
    if o.json:
        print(json.dumps({"schema": 1, "lines": lines, "runs": o.runs, "limit_ms": LIMIT_MS, "rows": summary}, indent=2))
    else:
        print(f"{lines} lines, {o.runs} runs, limit {LIMIT_MS:.0f} ms")
        for name, row in summary.items():
            print(f"{name:28s} median {row['median_ms']:7.1f} ms   fastest {row['min_ms']:7.1f} ms")
    return 0 if summary["weft check"]["median_ms"] <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
