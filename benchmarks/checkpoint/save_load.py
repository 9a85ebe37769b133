#!/usr/bin/env python3
"""Saving and loading a model in training: weft against torch.save, torch.distributed.checkpoint and DeepSpeed, in turn, on one disk.

    make && benchmarks/config/setup
    .venv/bin/python benchmarks/checkpoint/save_load.py [--rounds 3] [--results benchmarks/results]

Everybody has the same GPT in fp32 with AdamW on two ranks of one thread: three numbers for each parameter. weft and DeepSpeed are at ZeRO-2,
torch.distributed.checkpoint has what FSDP2 has sharded, torch.save is called by rank 0 alone. weft saves in the background of a training that
goes on, checksums included; the others save with nothing beside them.

Wanted: training stopped at most 0.1 of what torch.distributed.checkpoint's synchronous save takes; bytes written at 90 % of the disk's
sequential rate or more, measured in the same round; loading at twice the rate of torch.distributed.checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.checkpoint.disk import bytes_in, forget, sequential_rates  # noqa: E402
from benchmarks.e2e.pages import chosen, facts_of, machine_line, parser_for, publish  # noqa: E402
from benchmarks.e2e.train_vs_torch import num_params, progress, shape_of  # noqa: E402

LIMIT_S = 600
WEFT, TORCH_SAVE, DCP, DCP_ASYNC, DEEPSPEED = "weft", "torch.save", "DCP", "DCP, async_save", "DeepSpeed ZeRO-2"
HOW = {TORCH_SAVE: "torch.save", DCP: "dcp", DCP_ASYNC: "dcp async", DEEPSPEED: "deepspeed"}


class Contender:
    def __init__(self, name: str) -> None:
        self.name = name


def run(words: list, folder: pathlib.Path) -> None:
    done = subprocess.run([str(word) for word in words], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=LIMIT_S, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")


def launcher(o: argparse.Namespace) -> list:
    return [o.weft, "run", "-n", o.world, "--threads", "1", "--"]


def peer_run(name: str, o: argparse.Namespace, folder: pathlib.Path, **more) -> dict:
    python = o.deepspeed if name == DEEPSPEED else sys.executable
    job = {"how": HOW[name], "shape": shape_of(o), "folder": str(folder / "save"), "out": str(folder / "result.json"), **more}
    run([*launcher(o), python, ROOT / "benchmarks/peers/checkpoint_rank.py", json.dumps(job)], folder)
    return json.loads((folder / "result.json").read_text())


def peer_round(name: str, o: argparse.Namespace, folder: pathlib.Path) -> dict:
    found = peer_run(name, o, folder, saves=o.saves)
    forget(folder / "save")
    return {**found, **{field: peer_run(name, o, folder)["load_s"] for field in ("cold_s", "warm_s")}}


def weft_train(o: argparse.Namespace, folder: pathlib.Path, steps: int, *more: str) -> dict:
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
              "zero_optimization": {"stage": 2, "overlap_comm": True}}
    (folder / "ds_config.json").write_text(json.dumps(config))
    shape = [word for name, value in shape_of(o).items() for word in (f"--{name}", value)]
    run([*launcher(o), o.weft, "train", "--config", "ds_config.json", "--data", "random", "--steps", steps, "--threads", "1", "--micro-batch", "1", "--warmup", "0",
         "--save", "save", "--json", "result.json", *shape, *more], folder)
    return json.loads((folder / "result.json").read_text())


def weft_round(o: argparse.Namespace, folder: pathlib.Path) -> dict:
    """Each load goes with one more step, which is saved when training is over: of that the rate of writing with nothing beside it."""
    steps = o.saves * o.every
    os.sync()
    cost = weft_train(o, folder, steps, "--save-every", str(o.every), "--keep-last", "1")["checkpoints"]
    if cost["num_saves"] != o.saves or cost["waited_ms"] >= 1:
        progress(f"weft waited {cost['waited_ms']:.0f} ms for a save before it: --every {o.every} is too often for this disk")
    num_bytes = bytes_in(folder / "save")
    loads_ms, writes_ms = [], []
    for cold in (True, False):
        if cold:
            forget(folder / "save")
        again = weft_train(o, folder, steps + 1 + len(loads_ms), "--resume", "--keep-last", "1")["checkpoints"]
        loads_ms.append(again["load_ms"])
        writes_ms.append(again["write_ms"])
    saves = cost["num_saves"]
    return {"stopped_s": [cost["longest_stop_ms"] / 1e3, *[(cost["stopped_ms"] - cost["longest_stop_ms"]) / 1e3 / max(1, saves - 1)] * (saves - 1)],
            "durable_s": [(cost["stopped_ms"] + cost["write_ms"]) / 1e3 / saves] * saves, "write_s": statistics.median(writes_ms) / 1e3, "bytes": num_bytes,
            "cold_s": loads_ms[0] / 1e3, "warm_s": loads_ms[1] / 1e3}


def one_round(name: str, o: argparse.Namespace, temp: pathlib.Path) -> dict:
    folder = temp / "round"
    folder.mkdir()
    try:
        found = weft_round(o, folder) if name == WEFT else peer_round(name, o, folder)
    finally:
        shutil.rmtree(folder)
    write, read = sequential_rates(temp, found["bytes"], o.world)
    return {**found, "disk_write": write, "disk_read": read}


def summary(rounds: list[dict]) -> dict:
    def median(field: str) -> float:
        return statistics.median(value for one in rounds for value in (one[field] if isinstance(one[field], list) else [one[field]]))

    rates = [one["bytes"] / one.get("write_s", statistics.median(one["durable_s"])) for one in rounds]
    return {"stopped_s": median("stopped_s"), "longest_stop_s": max(value for one in rounds for value in one["stopped_s"]), "durable_s": median("durable_s"),
            "bytes": rounds[0]["bytes"], "rate": statistics.median(rates), "of_disk": statistics.median(rate / one["disk_write"] for rate, one in zip(rates, rounds)),
            "cold_s": median("cold_s"), "warm_s": median("warm_s"), "disk_write": median("disk_write"), "disk_read": median("disk_read")}


def measure(o: argparse.Namespace) -> dict:
    facts = facts_of(o)
    contenders = chosen(o, [Contender(name) for name in (WEFT, DCP, DCP_ASYNC, TORCH_SAVE, DEEPSPEED)])
    found: dict[str, list[dict]] = {one.name: [] for one in contenders}
    with tempfile.TemporaryDirectory(dir=o.disk) as temp:
        for number in range(o.rounds):
            for contender in contenders if number % 2 == 0 else contenders[::-1]:
                one = one_round(contender.name, o, pathlib.Path(temp))
                found[contender.name].append(one)
                progress(f"round {number + 1}/{o.rounds}  {contender.name:18s} stopped {statistics.median(one['stopped_s']) * 1e3:8.1f} ms, on disk after "
                         f"{statistics.median(one['durable_s']):6.2f} s, loaded in {one['cold_s']:.2f} and {one['warm_s']:.2f} s, disk {one['disk_write'] / 1e6:.0f} MB/s")
    return {"world": o.world, **facts, "rows": {name: summary(rounds) for name, rounds in found.items()}}


def line_of(name: str, row: dict, dcp: dict | None) -> str:
    stop = f"{row['stopped_s'] / dcp['stopped_s']:.3f}" if dcp else "-"
    loads = [f"{dcp[field] / row[field]:.2f}" if dcp else "-" for field in ("cold_s", "warm_s")]
    return (f"| {name} | {row['bytes'] / 1e6:.0f} | {row['stopped_s'] * 1e3:.1f} | {row['longest_stop_s'] * 1e3:.1f} | {stop} | {row['rate'] / 1e6:.0f} | "
            f"{row['of_disk']:.2f} | {row['cold_s']:.2f} ({loads[0]}) | {row['warm_s']:.2f} ({loads[1]}) |")


def report(o: argparse.Namespace, result: dict, command: str) -> str:
    rows = result["rows"]
    lines = "\n".join(line_of(name, row, rows.get(DCP)) for name, row in rows.items())
    written, read = (statistics.median(row[field] for row in rows.values()) / 1e6 for field in ("disk_write", "disk_read"))
    return f"""# Saving and loading: weft beside torch and DeepSpeed

{machine_line(result, f"{result['world']} ranks of one thread; the disk writes {written:.0f} MB/s and reads {read:.0f} MB/s in sequence (O_DIRECT, {o.world} files).")}

Command: `{command}`

GPT of {num_params(o) / 1e6:.1f}M parameters in fp32 with AdamW: weights and two moments. {o.saves} saves a round, {result['rounds']} rounds in turn, each a fresh process group.
"Stopped" is how long a save keeps the training, as median and as the longest there was (weft's first one also gets the memory it copies to).
"Written" is until all bytes are on the disk: for weft from the end of the stop, of a save with nothing beside it (the last of a run), for the others from
the call, with sync(2) for those that do not ask for it. Each contender's disk rate was measured right after it. Loads are those of programs that have
just built their model: nothing of the save in the page cache, then all of it; behind it how many times as fast as DCP. weft verifies every byte it
loads, the others none.

| | MB | stopped, ms | longest, ms | of DCP's | written, MB/s | of the disk's rate | cold load, s | warm load, s |
|---|---|---|---|---|---|---|---|---|
{lines}
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.set_defaults(rounds=3, dim=768, layers=8, heads=12, vocab=16384, seq=8)
    parser.add_argument("-n", dest="world", type=int, default=2, help="ranks")
    parser.add_argument("--saves", type=int, default=3, help="of each contender in a round")
    parser.add_argument("--every", type=int, default=60, help="weft: steps between saves; enough that each is written before the next begins")
    parser.add_argument("--disk", type=pathlib.Path, help="a folder on the disk to measure; the system's for temporary files by default")
    o = parser.parse_args()
    publish(o, f"checkpoint_n{o.world}", measure(o), report)


if __name__ == "__main__":
    main()
