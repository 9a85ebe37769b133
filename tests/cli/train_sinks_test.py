"""What ds_config.json asks a run to tell: tensorboard, csv_monitor, wandb, comms_logger, dump_state, memory_breakdown, through the real trainer."""

from __future__ import annotations

import csv
import json
import pathlib
import re

import pytest

from tools import wandb_offline

STEPS = 6
SINKS = {
    "tensorboard": {"enabled": True, "output_path": "logs", "job_name": "job"},
    "csv_monitor": {"enabled": True, "output_path": "curves", "job_name": "job"},
    "wandb": {"enabled": True, "project": "mine", "team": "us"},
}


def config(tmp_path: pathlib.Path, **more) -> str:
    text = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 2, "reduce_bucket_size": 3000}, **more}
    (tmp_path / "ds_config.json").write_text(json.dumps(text, indent=1))
    return "ds_config.json"


@pytest.fixture
def train(weft, tiny):
    def run(*words: str, ranks: int = 2, steps: int = STEPS, name: str = "r"):
        done = weft("train", "-n", str(ranks), *tiny, "--data", "random", "--steps", str(steps), "--name", name, "--config", "ds_config.json", *words)
        assert done.code == 0, done.err
        return done

    return run


def curve(path: pathlib.Path) -> list[tuple[int, float]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[0] == "step"
    return [(int(x), float(value)) for x, value in rows]


def rows_of(tmp_path: pathlib.Path, name: str = "r") -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()]


def test_the_curves_are_those_of_the_metrics(train, tmp_path):
    config(tmp_path, **SINKS)
    done = train()
    rows = rows_of(tmp_path)
    assert len(rows) == STEPS
    # One file a curve, under the names that the tool for wandb gives them.
    names = {tag for row in rows for tag in wandb_offline.scalars_of(row)}
    folder = tmp_path / "curves" / "job"
    assert {path.name for path in folder.iterdir()} == {tag.replace("/", "_") + ".csv" for tag in names}
    assert curve(folder / "Train_Samples_train_loss.csv") == [(row["samples"], row["loss"]) for row in rows]
    assert rows[0]["samples"] == 8
    (events,) = (tmp_path / "logs" / "job").iterdir()
    assert events.stat().st_size > 0 and events.name.startswith("events.out.tfevents.")
    assert json.loads((tmp_path / "runs" / "r" / "wandb.json").read_text()) == {"schema": 1, "project": "mine", "group": None, "team": "us"}
    assert done.err.count("tools/wandb_offline.py runs/r") == 1


def test_a_resumed_run_goes_on_with_its_curves(train, tmp_path):
    config(tmp_path, **SINKS)
    train("--save", "state", "--save-every", "2", steps=4)
    train("--save", "state", "--resume", steps=STEPS, name="again")
    assert [x for x, _ in curve(tmp_path / "curves" / "job" / "Train_Samples_lr.csv")] == [8 * step for step in range(1, STEPS + 1)]
    assert len(list((tmp_path / "logs" / "job").iterdir())) == 2


def test_a_folder_that_cannot_be_had_costs_a_warning(train, tmp_path):
    (tmp_path / "logs").write_text("a file")
    config(tmp_path, **SINKS)
    done = train(ranks=1)
    assert done.err.count("tensorboard: ") == 1 and "goes on without it" in done.err
    assert (tmp_path / "curves" / "job").is_dir()


def test_without_the_sections_there_is_nothing(train, tmp_path):
    config(tmp_path)
    before = set(tmp_path.iterdir())
    done = train(ranks=1)
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {"runs"}
    assert "comm op" not in done.err.lower() and "Comm. Op" not in done.err


def table_of(err: str) -> dict[str, list[list[str]]]:
    """Operation -> rows of size, count, total ms, mean ms, throughput, bus."""
    lines = [line.split("] ", 1)[-1] for line in err.splitlines()]
    out: dict[str, list[list[str]]] = {}
    for line in lines[next(i for i, line in enumerate(lines) if line.startswith("Comm. Op")) + 1 :]:
        if re.fullmatch(r"[a-z_]+", line):
            out[line] = rows = []
        elif re.match(r" {20}\d", line):
            rows.append(re.split(r" {2,}", line.strip()))
        else:
            break
    return out


def test_comms_logger_prints_deepspeeds_table(train, tmp_path):
    config(tmp_path, comms_logger={"enabled": True, "verbose": True}, weft={"transport": "gloo"})
    done = train()
    table = table_of(done.err)
    assert "reduce_scatter" in table and "all_gather" in table
    # Micro-steps of two, buckets of the same number each time.
    counts = [int(row[1]) for row in table["reduce_scatter"]]
    assert all(count % (2 * STEPS) == 0 for count in counts), counts
    for row in table["reduce_scatter"]:
        total_ms, rate, bus = float(row[2]), float(row[4]), float(row[5])
        assert total_ms > 0
        assert abs(bus - rate / 2) <= 0.011, "with two ranks half of the bytes are on the wire"
    said = len(re.findall(r"comm op: reduce_scatter \| time \(ms\): [\d.]+ \| msg size: [\d.]+ \w+ \| algbw \(Gbps\): [\d.]+ \| busbw", done.err))
    assert said == sum(counts)


def test_comms_logger_keeps_to_the_operations_named(train, tmp_path):
    config(tmp_path, comms_logger={"enabled": True, "prof_all": False, "prof_ops": ["all_gather_into_tensor"]}, weft={"transport": "gloo"})
    done = train()
    assert set(table_of(done.err)) == {"all_gather"}
    assert "comm op:" not in done.err


def test_dump_state_says_where_each_setting_comes_from(train, tmp_path):
    config(tmp_path, dump_state=True)
    done = train()
    line = (tmp_path / "ds_config.json").read_text().splitlines().index('  "stage": 2,') + 1
    assert done.err.count(f"zero_optimization.stage = 2 (ds_config.json:{line}:12)") == 1
    assert done.err.count("weft.transport = \"auto\" (default)") == 1


def test_memory_breakdown_adds_a_line_to_each_print(train, tmp_path):
    config(tmp_path, memory_breakdown=True, steps_per_print=3)
    done = train()
    found = re.findall(r"step (\d+): memory ([\d.]+) (\w+) resident", done.err)
    assert [step for step, _, _ in found] == ["3", "6"]
    assert all(unit in ("MiB", "GiB") and float(size) > 0 for _, size, unit in found)
