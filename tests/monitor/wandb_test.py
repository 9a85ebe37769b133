"""tools/wandb_offline.py against a wandb that writes down how it was called, and against the real one where there is one."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest

from tests.conftest import ROOT, run_with_deadline

TOOL = ROOT / "tools" / "wandb_offline.py"

FAKE_WANDB = """
import json, pathlib
class Run:
    def log(self, data, step=None): write("log", data=data, step=step)
    def finish(self): write("finish")
def write(call, **arguments):
    with pathlib.Path(__file__).with_name("calls").open("a") as out: out.write(json.dumps({"call": call, **arguments}) + "\\n")
def init(**arguments):
    write("init", **arguments)
    return Run()
"""


@pytest.fixture
def run_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    rows = ['{"step":1,"samples":8,"loss":2.5,"lr":0.1,"step_ms":4}', '{"step":2,"samples":16,"loss":null,"optimizer_ms":1.5}', '{"step":3,"sam']
    (folder / "metrics.jsonl").write_text("\n".join(rows))
    (folder / "wandb.json").write_text('{"schema":1,"project":"p","group":"g","team":null}')
    (folder / "settings.json").write_text('{"schema":1,"settings":[{"path":"zero_optimization.stage","value":2,"from":"default"}]}')
    return folder


@pytest.fixture
def offline(tmp_path: pathlib.Path):
    """Runs the tool with the fake wandb and returns what it called."""
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "wandb.py").write_text(FAKE_WANDB)

    def run(folder: pathlib.Path):
        calls = tmp_path / "fake" / "calls"
        calls.write_text("")
        done = run_with_deadline([sys.executable, str(TOOL), str(folder)], env=os.environ | {"PYTHONPATH": str(tmp_path / "fake")})
        return done, [json.loads(line) for line in calls.read_text().splitlines()]

    return run


def test_the_run_is_made_offline_under_deepspeeds_names(offline, run_folder):
    done, calls = offline(run_folder)
    assert done.code == 0, done.err
    assert calls == [
        {"call": "init", "mode": "offline", "dir": str(run_folder), "name": "first", "project": "p", "group": "g", "entity": None, "config": {"zero_optimization.stage": 2}},
        {"call": "log", "step": 8, "data": {"Train/Samples/train_loss": 2.5, "Train/Samples/lr": 0.1, "Train/Weft/step_ms": 4}},
        {"call": "log", "step": 16, "data": {"Train/Samples/elapsed_time_ms_step": 1.5}},
        {"call": "finish"},
    ]
    assert "metrics.jsonl:3 is no row of metrics" in done.err
    assert "2 rows" in done.out and "wandb sync" in done.out


def test_a_run_that_knows_nothing_of_wandb(offline, run_folder):
    (run_folder / "wandb.json").unlink()
    (run_folder / "settings.json").write_text("{torn")
    done, calls = offline(run_folder)
    assert done.code == 0, done.err
    assert (calls[0]["project"], calls[0]["config"]) == ("deepspeed", {})


def test_no_run_is_said_with_the_fix(offline, tmp_path):
    done, calls = offline(tmp_path)
    assert done.code == 1 and not calls
    assert "no metrics.jsonl" in done.err and "do:" in done.err


def test_no_wandb_is_said_with_the_command(run_folder, tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "wandb.py").write_text("raise ImportError('no wandb here')")
    done = run_with_deadline([sys.executable, str(TOOL), str(run_folder)], env=os.environ | {"PYTHONPATH": str(tmp_path / "none")})
    assert done.code == 1
    assert "-m pip install wandb" in done.err and "Traceback" not in done.err


def test_the_real_wandb_takes_it(run_folder, tmp_path):
    pytest.importorskip("wandb", reason="the wandb package is not installed: pip install wandb")
    env = os.environ | {"WANDB_SILENT": "true", "HOME": str(tmp_path)}
    done = run_with_deadline([sys.executable, str(TOOL), str(run_folder)], env=env)
    assert done.code == 0, done.err
    assert list(run_folder.glob("wandb/offline-run-*/run-*.wandb"))
