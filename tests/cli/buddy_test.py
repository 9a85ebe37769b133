"""The promises of docs/buddy.md through the real launcher: a rank or a host is lost, and the run goes on from memory with the same losses."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from checkpoint_soak import bits_of, children_of, steps_in

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMON = ["--data", "random", "--warmup", "0"]
SSH = f"{sys.executable} {pathlib.Path(__file__).with_name('fake_ssh.py')}"
POINTS = re.findall(r"// ([a-z]+\.[a-z]+)", (ROOT / "weft" / "checkpoint" / "kill_points.h").read_text())


def config(stage: int = 1, **own) -> dict:
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": stage}, "weft": {"buddy": True, **own}}


RUN_NUMBERS = itertools.count()


@pytest.fixture
def clean(weft, tiny, tmp_path):
    """Losses of a run that nobody disturbs, as bits, by step from 0."""

    def run(ranks: int, steps: int, settings: dict) -> list[str]:
        (tmp_path / "clean.json").write_text(json.dumps({**settings, "weft": {}}))
        done = weft("train", "-n", str(ranks), *tiny, *COMMON, "--config", "clean.json", "--steps", str(steps), "--json", "-")
        assert done.code == 0, done.err
        return json.loads(done.out)["loss_bits"]

    return run


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
    """Other runs may keep copies on this machine meanwhile: those of this test have its name."""
    name = f"buddytest{os.getpid()}x{next(RUN_NUMBERS)}"
    monkeypatch.setenv("WEFT_RUN_ID", name)
    yield
    assert list(pathlib.Path("/dev/shm").glob(f"weft-buddy-{os.getuid()}-{name}*")) == []


def ends_as_if_nothing_had_happened(folder: pathlib.Path, whole: list[str]) -> int:
    """The step that the last attempt began with."""
    out = json.loads((folder / "out.json").read_text())
    assert out["loss_bits"] == whole[out["first_step"]:]
    return out["first_step"]


# Rank 0 alone commits and prunes, the others alone leave notes. With the copy of step 3 it dies: what is left is step 2 or 3.
ON_ONE_HOST = [(point, rank) for point in POINTS for rank in range(2) if not point.startswith(("load.", "pass."))
               and (rank == 0 or not point.startswith(("commit.", "prune."))) and not (rank == 0 and point == "save.noted")]


@pytest.mark.parametrize("point, rank", ON_ONE_HOST, ids=lambda word: str(word))
def test_a_rank_that_dies_anywhere_in_a_copy_costs_one_step(weft, build_dir, tiny, clean, tmp_path, point, rank):
    (tmp_path / "ds.json").write_text(json.dumps(config()))
    done = weft("run", "-n", "2", "--restarts", "1", "--resume", "--", str(build_dir / "bin" / "weft"), "train", *tiny, *COMMON, "--config", "ds.json", "--steps", "6",
                "--json", "out.json", env={"WEFT_KILL_AT": f"{rank}:{point}:3"})
    assert done.code == 0, done.err
    assert f"dying at {point}" in done.err and "in memory; no checkpoint was read" in done.err
    assert f"/dev/shm/weft-buddy-{os.getuid()}-{os.environ['WEFT_RUN_ID']}" in done.err
    assert ends_as_if_nothing_had_happened(tmp_path, clean(2, 6, config())) in (2, 3, 4)


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_ranks_killed_at_random_moments_change_no_loss(build_dir, clean, tiny, tmp_path, stage):
    """Nothing is saved until the end: whatever they go on from is in memory."""
    chance, settings, steps = random.Random(stage), config(stage, buddy_every_steps=2), 400
    (tmp_path / "ds.json").write_text(json.dumps(settings))
    command = [str(build_dir / "bin" / "weft"), "train", "-n", "3", *tiny, *COMMON, "--config", "ds.json", "--steps", str(steps), "--save", "s", "--restarts",
               "3", "--json", "out.json"]
    run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for kill in range(2):
            end, last = time.monotonic() + 60, max(bits_of(tmp_path), default=0)
            while max(bits_of(tmp_path), default=0) < last + 5 or len(children_of(run.pid)) < 3:
                assert run.poll() is None and time.monotonic() < end, f"no step came after {kill} kills"
                time.sleep(0.01)
            time.sleep(chance.random() * 0.1)
            os.kill(chance.choice(children_of(run.pid)), signal.SIGKILL)
        _, errors = run.communicate(timeout=120)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
    assert run.returncode == 0, errors
    assert errors.count("in memory; no checkpoint was read") == 2 and "resumed from step" not in errors
    assert ends_as_if_nothing_had_happened(tmp_path, clean(3, steps, settings)) > 0
    assert steps_in(tmp_path / "s") == [steps]


def test_the_newer_one_of_copy_and_checkpoint_is_taken(weft, tiny, clean, tmp_path):
    """Saves of steps 3, 6, 9 and 12, a copy of 8. The fifth to begin is the save of 12: then step 9 is saved for sure, and 8 is the only copy."""
    (tmp_path / "ds.json").write_text(json.dumps(config(buddy_every_steps=8)))
    done = weft("train", "-n", "2", *tiny, *COMMON, "--config", "ds.json", "--steps", "13", "--json", "out.json", "--save", "s", "--save-every", "3", "--restarts",
                "1", env={"WEFT_KILL_AT": "1:save.begin:5"})
    assert done.code == 0, done.err
    assert "resumed from step 9 in s" in done.err and "no checkpoint was read" not in done.err
    assert ends_as_if_nothing_had_happened(tmp_path, clean(2, 13, config())) == 9


def test_without_a_launcher_that_starts_again_a_word_is_said(weft, tiny, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps(config()))
    done = weft("train", "-n", "2", *tiny, *COMMON, "--config", "ds.json", "--steps", "3")
    assert done.code == 0 and "no copies are kept" in done.err


def test_what_does_not_fit_into_memory_is_refused(build_dir, tiny, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps(config()))
    weft = str(build_dir / "bin" / "weft")
    command = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=500k none /dev/shm && exec "$@"', "sh", weft, "train", "-n", "2", *tiny, *COMMON, "--config",
               "ds.json", "--steps", "5", "--save", "s", "--restarts", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"mount namespaces are not allowed here: {done.stderr.strip()}")
    assert done.returncode != 0 and "there is no room in memory for copies of the training" in done.stderr


# --- Several hosts ---------------------------------------------------------------------------------------------------

HOSTS = "127.0.0.1:2,127.0.0.2:1,127.0.0.3:1"


@pytest.fixture
def on_hosts(weft, tiny, tmp_path, build_dir):
    """Three hosts that are shells of this machine: they share no memory because they say so. `before` is done there before an attempt's ranks start."""

    def run(steps: int, *flags: str, before: str = "", env: dict | None = None):
        words = " ".join([str(build_dir / "bin" / "weft"), "train", *tiny, *COMMON, "--config", "ds.json", "--steps", str(steps), "--json", "out.json"])
        script = f"export WEFT_HOST_ID=$FAKE_HOST; {before} exec {words}"
        return weft("run", "--ssh", SSH, "--hosts", HOSTS, *flags, "--", "/bin/sh", "-c", script, env=env or {})

    return run


@pytest.mark.parametrize("point, rank", [("save.written", 0), ("pass.half", 2), ("pass.done", 3), ("commit.sealed", 3), ("commit.renamed", 2)])
def test_on_several_hosts_a_loss_in_mid_copy_leaves_the_one_before(on_hosts, clean, tmp_path, point, rank):
    (tmp_path / "ds.json").write_text(json.dumps(config(2)))
    done = on_hosts(6, "--restarts", "1", "--resume", env={"WEFT_KILL_AT": f"{rank}:{point}:3"})
    assert done.code == 0, done.err
    assert f"dying at {point}" in done.err and "in memory; no checkpoint was read" in done.err
    # Rank 2 gets two files a step: it dies in the second one, the others in the third.
    assert ends_as_if_nothing_had_happened(tmp_path, clean(4, 6, config(2))) in (1, 2, 3, 4)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
def test_a_host_whose_memory_is_lost_costs_no_more(on_hosts, clean, tmp_path, host):
    (tmp_path / "ds.json").write_text(json.dumps(config(2)))
    before = f'if [ $FAKE_HOST$TORCHELASTIC_RESTART_COUNT$LOCAL_RANK = {host}10 ]; then rm -r "$WEFT_BUDDY_DIR"; fi; sleep $TORCHELASTIC_RESTART_COUNT;'
    done = on_hosts(6, "--restarts", "1", "--resume", before=before, env={"WEFT_KILL_AT": "1:save.begin:4"})
    assert done.code == 0, done.err
    assert "in memory; no checkpoint was read" in done.err
    assert ends_as_if_nothing_had_happened(tmp_path, clean(4, 6, config(2))) in (3, 4)
