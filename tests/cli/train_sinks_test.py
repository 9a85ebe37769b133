"""What ds_config.json asks a run to tell: tensorboard, csv_monitor, wandb, comms_logger, dump_state, memory_breakdown, flops_profiler, through the real
trainer."""

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
    # Micro-steps of two; buckets of the same sizes each time, but for the first step, whose order of gradients is still to be learnt.
    counts = [int(row[1]) for row in table["reduce_scatter"]]
    assert all(count % 2 == 0 for count in counts) and max(counts) >= 2 * (STEPS - 1), counts
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


def flops_of(tmp_path: pathlib.Path) -> tuple[dict, dict[str, dict]]:
    flops = json.loads((tmp_path / "runs" / "r" / "flops.json").read_text())
    assert flops["schema"] == 1
    return flops, {module["name"]: module for module in flops["modules"]}


def sum_of(module: dict) -> int:
    return module["forward"] + module["backward"] + module["recomputed"]


@pytest.mark.parametrize("section", [{}, {"zero_optimization": {"stage": 3}}, {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}], ids=["stage2", "stage3", "autocast"])
def test_flops_profiler_counts_each_module_by_its_formula(train, tmp_path, section):
    config(tmp_path, flops_profiler={"enabled": True, "profile_step": 3}, **section)
    done = train("--layers", "2")
    flops, modules = flops_of(tmp_path)
    dim, seq, tokens = 16, 16, 2 * 2 * 16
    for block in ("block0", "block1"):
        assert sum_of(modules[block]) == 3 * tokens * (24 * dim**2 + 4 * seq * dim)
        assert modules[block]["forward"] * 2 == modules[block]["backward"]
        assert sum_of(modules[f"{block}.qkv"]) == 3 * tokens * 6 * dim**2
        assert modules[block]["parameters"] == 12 * dim**2 + 13 * dim
        assert modules[block]["type"] == "GptBlock"
    assert sum_of(modules[""]) == flops["total"] and sum_of(flops["elsewhere"]) == 0
    assert flops["step"] == 3
    assert sum(one["flops"] for one in flops["operators"]) == flops["total"]
    result = json.loads((tmp_path / "runs" / "r" / "result.json").read_text())
    assert flops["total"] * 2 == result["flops_per_step"]
    assert done.err.count("FLOPs of step 3 on this rank") == 1
    assert re.search(r"\n    block0 +GptBlock +3,280 ", done.err) and "aten::addmm" in done.err
    assert "FLOPs by module" in (tmp_path / "runs" / "r" / "report.html").read_text()


@pytest.mark.parametrize("section", [{"fp16": {"enabled": True, "initial_scale_power": 8}}, {"torch_autocast": {"enabled": True, "dtype": "float16"}}], ids=["fp16", "autocast"])
def test_a_scaled_loss_shows_its_scale(train, tmp_path, section):
    config(tmp_path, **section)
    train()
    scale = 256 if "fp16" in section else 65536
    result = json.loads((tmp_path / "runs" / "r" / "result.json").read_text())
    rows = rows_of(tmp_path)
    assert result["loss_scale"][0] == rows[0]["loss_scale"] == scale and len(result["loss_scale"]) == len(rows)
    assert rows[-1]["skipped_steps"] == len(result["skipped_steps"])
    assert rows[-1]["grad_norm"] > 0


def test_flops_profiler_shows_what_it_is_told_to(train, tmp_path):
    more = {"module_depth": 1, "top_modules": 2, "detailed": False, "recompute_fwd_factor": 1.0, "output_file": "flops.txt"}
    config(tmp_path, flops_profiler={"enabled": True, "profile_step": 2, **more})
    done = train(ranks=1)
    text = (tmp_path / "flops.txt").read_text()
    assert "the FLOPs of step 2 are in flops.txt" in done.err and "on this rank" not in done.err
    assert re.search(r"\n  0 +Gpt .*\n  1 +Linear .*\n  1 +GptBlock .*\n$", text), text
    assert "recompute_fwd_factor 1: forward times 4 is" in text


def test_flops_profiler_with_a_file_that_cannot_be_written_prints(train, tmp_path):
    config(tmp_path, flops_profiler={"enabled": True, "output_file": "missing/flops.txt"})
    done = train(ranks=1)
    assert "missing/flops.txt" in done.err and done.err.count("FLOPs of step 1 on this rank") == 1


def test_the_token_of_the_page_stands_in_no_other_file(train, tmp_path):
    """The log, settings.json and the report are for all who may read the run; the page is for those who have the token."""
    token = "SECRETTOKEN123"
    config(tmp_path, dump_state=True, weft={"dashboard": {"host": "0.0.0.0", "port": 0, "token": token}}, comet={"api_key": token})
    done = train()
    assert "weft.dashboard.token = (set, not shown)" in done.err
    assert token not in done.out + done.err
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert {"settings.json", "report.html", "log.txt"} <= {file.name for file in files}
    assert [file for file in files if token.encode() in file.read_bytes() and file.name != "dashboard.json"] == []
