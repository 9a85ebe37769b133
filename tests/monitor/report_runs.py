"""Run folders as weft leaves them, made up: any number of steps and ranks, in a fraction of a second.

    python3 tests/monitor/report_runs.py FOLDER [--steps N] [--ranks N] [--status running] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import random

MS = 1_000_000
START_S = 1_790_000_000.0
ADVICE = [
    {"severity": "warning", "path": "zero_optimization.overlap_comm", "en": "Communication waits for backward to end.",
     "zh": "通信要等反向传播结束才开始。", "fix_en": "set \"overlap_comm\": true", "fix_zh": "设 \"overlap_comm\": true"},
    {"severity": "advice", "path": "zero_optimization.reduce_bucket_size", "en": "A bucket of 500M elements takes 1 GB on every rank.",
     "zh": "5e8 的桶在每个进程上占 1 GB。", "fix_en": "2e8 is enough on this link", "fix_zh": "此链路上 2e8 足够"},
]


def metrics_rows(steps: int, ranks: int, random_: random.Random) -> list[dict]:
    rows, seconds = [], START_S
    for step in range(1, steps + 1):
        slow = 6.0 if random_.random() < 0.001 else 1.0
        forward, backward = 60 * random_.uniform(0.95, 1.1) * slow, 110 * random_.uniform(0.95, 1.1)
        waits = 0.0 if ranks == 1 else 14 * random_.uniform(0.5, 2)
        save = 180.0 if step % 200 == 0 else 0.0
        parts = {"forward_ms": forward, "backward_ms": backward, "optimizer_ms": 20.0, "data_ms": 0.8, "other_ms": 6.0 + waits + save}
        step_ms = sum(parts.values())
        seconds += step_ms / 1e3
        loss = 2.1 + 8.0 * math.exp(-step / (steps / 6 + 1)) + random_.gauss(0, 0.06)
        rows.append({"step": step, "samples": step * 256, "loss": loss, "lr": 3e-4, "grad_norm": random_.uniform(0.5, 1.5),
                     "samples_per_s": 256e3 / step_ms, "tokens_per_s": 256 * 1024e3 / step_ms, "step_ms": step_ms, **parts,
                     "exposed_comm_ms": waits, "checkpoint_ms": save, "flops_per_s": 3.1e14, "mfu": 0.41 * 200 / step_ms, "sent_bytes": 65_000_000,
                     "rss_bytes": 9_000_000_000, "device_bytes": 52_000_000_000, "device_reserved_bytes": 61_000_000_000, "cpu_percent": 130.0,
                     "gpu_percent": min(99.0, 91 + random_.gauss(0, 2)), "unix_s": seconds, "step_ms_min": step_ms - 2, "step_ms_mean": step_ms,
                     "step_ms_max": step_ms + 1, "busy_ms_min": step_ms - waits - 9, "busy_ms_mean": step_ms - waits,
                     "busy_ms_max": step_ms - 2, "waits_ms_max": waits + 3, "device_fragmentation": 0.12,
                     "sent_reduce_bytes": 4e7, "sent_gather_bytes": 2.5e7, "sent_loss_bytes": 400.0})
    return rows


def ranks_json(rows: list[dict], ranks: int, random_: random.Random) -> dict:
    slow_rank, out = ranks // 2, []
    for rank in range(ranks):
        extra = 24.0 if rank == slow_rank and ranks > 1 else random_.uniform(0, 3)
        out.append({"rank": rank, "host": f"node{rank // 8}", "step_ms": 205.0, "data_ms": 0.8, "forward_ms": 60.0, "backward_ms": 108 + extra,
                    "optimizer_ms": 20.0, "exposed_comm_ms": max(0.0, 30 - extra), "checkpoint_ms": 0, "busy_ms": 176 + extra,
                    "rss_bytes": 9_000_000_000, "device_bytes": 52_000_000_000, "device_reserved_bytes": 61_000_000_000, "cpu_percent": 130.0,
                    "gpu_percent": 91.0})
    slow = [{"rank": slow_rank, "phase": "backward", "where": "blocks.3", "percent": 18.4, "ms": 24.0, "since_step": 80}] if ranks > 1 else []
    return {"schema": 1, "step": len(rows), "unix_s": rows[-1]["unix_s"] if rows else START_S, "world": ranks, "ranks": out, "slow": slow}


def timeline_json(steps: int, ranks: int, random_: random.Random) -> dict:
    rows, spans, marks = [], [], []
    numbers = range(max(1, steps - 1), steps + 1)
    for i, step in enumerate(numbers):
        marks.append({"step": step, "start_ns": i * 210 * MS, "end_ns": i * 210 * MS + 205 * MS})
    for rank in range(ranks):
        base = len(rows)
        rows += [{"rank": rank, "track": track} for track in ("compute", "reduce", "gather", "exposed wait")]
        late = 12 * MS if rank == ranks // 2 else random_.randrange(3 * MS)
        for mark in marks:
            at = mark["start_ns"]
            spans.append([base, at, mark["end_ns"], "step", "step", -1, -1])
            spans.append([base, at + MS, at + 61 * MS, "forward", "forward", -1, -1])
            spans.append([base, at + 62 * MS, at + 165 * MS + late, "backward", "backward", -1, -1])
            for bucket in range(5):
                start = at + (80 + 20 * bucket) * MS + late
                spans.append([base + 1, start, start + 22 * MS, "reduce", "reduce", bucket, 13_000_000])
                if bucket < 4:
                    spans.append([base + 2, at + (2 + 12 * bucket) * MS, at + (10 + 12 * bucket) * MS, "gather", "gather", bucket, 13_000_000])
            spans.append([base + 3, at + 165 * MS + late, at + 182 * MS + late // 2, "wait for gradients", "exposed_wait", 4, -1])
            spans.append([base, at + 183 * MS, at + 203 * MS, "optimizer", "optimizer", -1, -1])
    return {"schema": 1, "steps": marks, "rows": rows, "spans": spans}


def settings_json() -> dict:
    given = [("train_batch_size", 256, "ds_config.json:2:23"), ("zero_optimization.stage", 2, "ds_config.json:5:14"),
             ("zero_optimization.reduce_bucket_size", 500000000, "ds_config.json:6:27"), ("bf16.enabled", True, "ds_config.json:9:23"),
             ("gradient_accumulation_steps", 4, "auto (256 / (8 x 8))"), ("optimizer.params.betas", [0.9, 0.95], "ds_config.json:12:20"),
             ("steps", 2000, "flag")]
    rows = [{"path": path, "value": value, "from": origin} for path, value, origin in given]
    rows += [{"path": f"zero_optimization.setting_{i}", "value": i, "from": "default"} for i in range(90)]
    return {"schema": 1, "settings": rows, "advice": ADVICE}


def result_json(name: str, status: str, rows: list[dict], ranks: int) -> dict:
    losses = [row["loss"] for row in rows]
    return {"schema": 1, "name": name, "status": status, "device": "cuda", "data": "corpus", "params": 1_420_000_000, "world": ranks, "stage": 2,
            "threads": 4, "seed": 7, "first_step": 0, "steps": len(rows), "tokens_per_step": 256 * 1024, "final_loss": losses[-1] if losses else None,
            "held_out_loss": 2.31 if losses else None, "unigram_entropy": 7.4, "bytes_sent": 65_000_000 * len(rows), "tokens_per_s": 1.3e6,
            "peak_rss_bytes": 9_400_000_000, "peak_device_bytes": 66_000_000_000, "host_memory_bytes": 540_000_000_000,
            "device_memory_bytes": 150_000_000_000, "state_bytes": {"params": 2_840_000_000, "grads": 1_420_000_000, "optimizer": 2_130_000_000},
            "ledger": {"parameters": 2_840_000_000, "gradients": 1_400_000_000, "optimizer": 2_130_000_000, "communication": 800_000_000},
            "flops_per_step": 6.2e13, "peak_flops_per_s": 9.8e14, "loss": losses}


def make_run(folder: pathlib.Path, steps: int = 600, ranks: int = 4, status: str = "finished", seed: int = 1) -> pathlib.Path:
    random_ = random.Random(seed)
    folder.mkdir(parents=True)
    rows = metrics_rows(steps, ranks, random_)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    for name, value in (("result", result_json(folder.name, status, rows if status != "running" else [], ranks)),
                        ("ranks", ranks_json(rows, ranks, random_)), ("settings", settings_json()),
                        ("timeline", timeline_json(max(1, steps), ranks, random_))):
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "log.txt").write_text("2026-09-21T14:13:20Z [weft rank 0] training on 4 ranks\n2026-09-21T14:20:01Z [weft rank 3] error: rank 2 died\n")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--status", default="finished")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(make_run(args.folder, args.steps, args.ranks, args.status, args.seed))


if __name__ == "__main__":
    main()
