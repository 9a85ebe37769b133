"""A disk that fills up, and a folder that goes away, in the middle of a run: training goes on, says so once, and ends well."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from tests.conftest import TINY, run_with_deadline
from tests.monitor.live_helpers import wait_until


def can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="a small disk is mounted in a namespace of its own, which takes root")


def config(folder: pathlib.Path, runs: pathlib.Path) -> pathlib.Path:
    path = folder / "ds.json"
    sinks = {name: {"enabled": True, "output_path": str(runs), "job_name": name} for name in ("tensorboard", "csv_monitor")}
    path.write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "Adam", "params": {"lr": 1e-3}}} | sinks))
    return path


# The disk is full once some steps have been recorded; the run ends two seconds later.
SMALL_DISK = """set -e
mount -t tmpfs -o size=6m tmpfs "$1"
(until [ "$(wc -l < "$1/x/metrics.jsonl" 2>/dev/null || echo 0)" -gt 20 ]; do sleep 0.05; done
 cat /dev/zero > "$1/filler" 2>/dev/null || true
 sleep 2
 touch "$2") &
shift 2
"$@"
"""


@needs_mount
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_disk_that_fills_up_costs_the_rows_and_one_warning(build_dir, tmp_path, ranks):
    runs, full = tmp_path / "runs", tmp_path / "full"
    runs.mkdir()
    words = [build_dir / "bin/weft", "train", "-n", ranks, *TINY, "--data", "random", "--for", "8s", "--runs", runs, "--name", "x", "--trace",
             "--config", config(tmp_path, runs), "--save", tmp_path / "state", "--save-every", 50, "--json", "-"]
    done = run_with_deadline(["unshare", "-m", "sh", "-c", SMALL_DISK, "sh", str(runs), str(full), *map(str, words)])
    assert full.exists(), "the run was over before the disk was full"
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["status"] == "finished" and result["steps"] > 20
    said = [line for line in done.err.splitlines() if "cannot write" in line]
    assert len(said) == len({line.split("]")[0] for line in said}), f"once a rank: {said}"
    assert sum("rank 1" not in line.split("]")[0] for line in said) == 1 and "training goes on" in said[0]
    assert "report: not written" in done.err
    assert (tmp_path / "state/latest").exists(), "the state is on another disk"


def test_a_folder_that_goes_away_costs_the_same(build_dir, tmp_path):
    runs = tmp_path / "runs"
    words = [build_dir / "bin/weft", "train", *TINY, "--data", "random", "--for", "6s", "--runs", runs, "--name", "x", "--config",
             config(tmp_path, tmp_path / "sinks"), "--json", "-"]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: (runs / "x/ranks.json").exists())
        time.sleep(0.5)
        shutil.rmtree(runs)
        runs.write_text("not a folder any more")
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert json.loads(out)["status"] == "finished"
    assert err.count("cannot write") == 1, err
