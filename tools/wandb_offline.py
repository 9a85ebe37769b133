#!/usr/bin/env python3
"""Makes an offline run of Weights & Biases out of a finished run of weft.

    python3 tools/wandb_offline.py runs/20261116-101500
    wandb sync runs/20261116-101500/wandb/offline-run-*

Reads metrics.jsonl, wandb.json (project, group, team: the section "wandb" of ds_config.json) and settings.json of the run's
folder; the last two may be missing. Names and x axis (samples) are those of DeepSpeed's WandbMonitor. Nothing is sent.
Needs the wandb package.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

# As weft/monitor/scalars.cpp has them.
DEEPSPEED_NAMES = {
    "loss": "Train/Samples/train_loss",
    "lr": "Train/Samples/lr",
    "loss_scale": "Train/Samples/loss_scale",
    "forward_ms": "Train/Samples/elapsed_time_ms_forward",
    "backward_ms": "Train/Samples/elapsed_time_ms_backward",
    "optimizer_ms": "Train/Samples/elapsed_time_ms_step",
}
NO_CURVES = ("step", "samples", "unix_s")


def fail(title: str, fix: str) -> None:
    sys.exit(f"error: {title}\n  do:    {fix}")


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def read_object(path: pathlib.Path) -> dict:
    """{} for a file that is not there or is no JSON object; the run is worth more than what is said about it."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        warn(f"{path} is left out: {problem}")
        return {}
    return found if isinstance(found, dict) else {}


def rows_of(path: pathlib.Path):
    """The rows, one after the other. A line that is none is left out with a warning: a crash tears the last one."""
    with path.open() as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                int(row["step"])
            except (ValueError, TypeError, KeyError):
                warn(f"{path}:{number} is no row of metrics and is left out")
                continue
            yield row


def scalars_of(row: dict) -> dict[str, float]:
    """What was not finite is null in the row and has no point."""
    named = {name: value for name, value in row.items() if name not in NO_CURVES and isinstance(value, (int, float))}
    return {DEEPSPEED_NAMES.get(name, f"Train/Weft/{name}"): value for name, value in named.items()}


def settings_of(folder: pathlib.Path) -> dict[str, object]:
    rows = read_object(folder / "settings.json").get("settings", [])
    return {row["path"]: row["value"] for row in rows if isinstance(row, dict) and "path" in row and "value" in row}


def make_offline_run(wandb, folder: pathlib.Path) -> int:
    """The number of rows logged."""
    about = read_object(folder / "wandb.json")
    run = wandb.init(
        mode="offline",
        dir=str(folder),
        name=folder.name,
        project=about.get("project", "deepspeed"),
        group=about.get("group"),
        entity=about.get("team"),
        config=settings_of(folder),
    )
    count = 0
    for row in rows_of(folder / "metrics.jsonl"):
        run.log(scalars_of(row), step=int(row.get("samples", row["step"])))
        count += 1
    run.finish()
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the run: the one with metrics.jsonl")
    folder = parser.parse_args().folder.resolve()
    if not (folder / "metrics.jsonl").is_file():
        fail(f"there is no metrics.jsonl in {folder}", "give the folder of a run, as in runs/20261116-101500")
    try:
        import wandb
    except ImportError:
        fail("the wandb package is not installed", f"{sys.executable} -m pip install wandb")
    count = make_offline_run(wandb, folder)
    print(f"{count} rows; to upload them: wandb sync {folder}/wandb/offline-run-*")


if __name__ == "__main__":
    main()
