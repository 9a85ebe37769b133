"""The promises of docs/checkpoints.md through the real binaries: what is saved, what is kept, what ends a run, and what a kill leaves."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from checkpoint_soak import chaos, kill_all, steps_in

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMON = ["--data", "random", "--warmup", "0"]


def result(folder: pathlib.Path, name: str) -> dict:
    return json.loads((folder / "runs" / name / "result.json").read_text())


def wait_for(what, deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


@pytest.fixture
def start(build_dir, tmp_path, tiny):
    """Starts `weft train` and hands it over while it runs; whatever is left at the end is killed."""
    started: list[subprocess.Popen] = []

    def begin(*words: str) -> subprocess.Popen:
        command = [str(build_dir / "bin" / "weft"), "train", *tiny, *COMMON, *words]
        started.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def bits(weft, tiny, *words: str) -> list[str]:
    done = weft("train", *tiny, *COMMON, "--json", "-", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)["loss_bits"]


def test_keeps_the_last_every_nth_and_the_best(weft, tiny, tmp_path):
    done = weft("train", *tiny, *COMMON, "--steps", "12", "--save", "s", "--save-every", "1", "--keep-last", "2", "--keep-every", "5", "--json", "-")
    assert done.code == 0, done.err
    assert steps_in(tmp_path / "s") == [5, 10, 11, 12]
    cost = json.loads(done.out)["checkpoints"]
    assert cost["num_saves"] == 12 and cost["num_failed"] == 0 and cost["bytes"] > 12 * 3 * 4 * 10_000
    assert 0 < cost["longest_stop_ms"] <= cost["stopped_ms"] and cost["write_ms"] > 0
    assert cost["load_ms"] == 0
    again = json.loads(weft("train", *tiny, *COMMON, "--steps", "13", "--save", "s", "--resume", "--json", "-").out)
    assert again["checkpoints"]["load_ms"] > 0
    losses = json.loads(weft("train", *tiny, *COMMON, "--steps", "12", "--save", "b", "--save-every", "1", "--keep-last", "1", "--keep-best", "1",
                             "--json", "-").out)["loss"]
    assert steps_in(tmp_path / "b") == sorted({1 + losses.index(min(losses)), 12})


def test_the_config_says_how_often_to_save_and_how_many_to_keep(weft, tiny, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
                                                  "weft": {"save_every_steps": 2, "keep_saves": 3}}))
    done = weft("train", *tiny, *COMMON, "--steps", "9", "--save", "s", "--config", "ds.json")
    assert done.code == 0, done.err
    assert steps_in(tmp_path / "s") == [6, 8, 9]
    assert "has no effect" not in done.err, done.err


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_the_run_goes_on_from_there(weft, tiny, start, tmp_path, number, ranks):
    process = start("-n", str(ranks), "--for", "10m", "--save", "s", "--name", "r")
    wait_for(lambda: (tmp_path / "runs" / "r" / "metrics.csv").exists() and (tmp_path / "runs" / "r" / "metrics.csv").read_text().count("\n") > 3)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (-number, 128 + number)
    first = result(tmp_path, "r")
    assert first["status"] == "stopped" and steps_in(tmp_path / "s") == [first["steps"]]
    more = first["steps"] + 5
    whole = bits(weft, tiny, "-n", str(ranks), "--steps", str(more))
    assert first["loss_bits"] + bits(weft, tiny, "-n", str(ranks), "--steps", str(more), "--save", "s", "--resume") == whole


def test_files_ask_for_a_save_and_for_the_end(start, tmp_path):
    process = start("--for", "10m", "--name", "r")
    wait_for((tmp_path / "runs" / "r" / "metrics.csv").exists)
    (tmp_path / "runs" / "r" / "SAVE").touch()
    store = tmp_path / "runs" / "r" / "state"
    wait_for(lambda: store.exists() and steps_in(store))
    assert not (tmp_path / "runs" / "r" / "SAVE").exists() and process.poll() is None
    (tmp_path / "runs" / "r" / "STOP").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0
    out = result(tmp_path, "r")
    assert out["status"] == "finished" and steps_in(store)[-1] == out["steps"]


def test_another_number_of_ranks_goes_on_with_a_word(weft, tiny, tmp_path):
    bits(weft, tiny, "-n", "3", "--steps", "4", "--save", "s")
    done = weft("train", "-n", "2", *tiny, *COMMON, "--steps", "6", "--save", "s", "--resume", "--json", "-")
    assert done.code == 0, done.err
    out = json.loads(done.out)
    assert out["first_step"] == 4 and out["steps"] == 2 and out["world"] == 2
    assert "--ranks is 2 now, the saved run had 3" in done.err


def test_fewer_ranks_keep_the_batch_by_accumulation(weft, tiny, tmp_path):
    (tmp_path / "batch.json").write_text(json.dumps({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2},
                                                     "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}))

    def run(ranks: int, steps: int, *words: str) -> dict:
        done = weft("train", "-n", str(ranks), *tiny, *COMMON, "--config", "batch.json", "--steps", str(steps), "--json", "-", *words)
        assert done.code == 0, done.err
        return json.loads(done.out)

    whole, first = run(4, 8), run(4, 4, "--save", "s")
    rest = run(2, 8, "--save", "s", "--resume")
    assert rest["tokens_per_step"] == first["tokens_per_step"]
    assert first["loss_bits"] == whole["loss_bits"][:4]
    assert rest["loss"] == pytest.approx(whole["loss"][4:], rel=1e-5)  # the same samples, added up in another order


def test_a_second_run_is_refused_by_the_name_of_the_first(weft, tiny, start, tmp_path):
    process = start("--for", "10m", "--save", "s", "--save-every", "1")
    wait_for(lambda: (tmp_path / "s").exists() and steps_in(tmp_path / "s"))
    done = weft("train", *tiny, *COMMON, "--steps", "3", "--save", "s")
    assert done.code == 2 and "another run is writing to this store" in done.err and f"process {process.pid} on" in done.err


def test_a_full_disk_is_told_and_training_goes_on(build_dir, tiny, tmp_path):
    """The store on a file system with room for one step and not for two, in a mount namespace of its own."""
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o size=1600k none {tmp_path}/disk && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(build_dir / "bin" / "weft"), "train", *tiny, *COMMON, "--steps", "30", "--save",
               f"{tmp_path}/disk/s", "--save-every", "2", "--name", "r"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"mount namespaces are not allowed here: {done.stderr.strip()}")
    assert "there is no room on the disk for a checkpoint" in done.stderr and "training goes on" in done.stderr
    assert done.returncode == 1 and result(tmp_path, "r")["steps"] == 30


# A bounded number here; checkpoint_soak.py by hand does as many as it is told.
@pytest.mark.parametrize("ranks", [1, 3])
def test_killed_again_and_again_it_goes_on_as_if_nothing_had_happened(build_dir, tmp_path, ranks):
    assert kill_all(build_dir / "bin" / "weft", tmp_path, ranks, kills=5, seed=ranks) >= 5


def test_a_rank_that_dies_now_and_then_changes_no_loss(build_dir, tmp_path):
    done = chaos(build_dir / "bin" / "weft", tmp_path, ranks=2, for_s=6, every_s=0.5, seed=1)
    assert done["kills"] >= 2 and done["steps"] > done["kills"]


POINTS = [point for point in re.findall(r"// ([a-z]+\.[a-z]+)", (ROOT / "weft" / "checkpoint" / "kill_points.h").read_text())
          if not point.startswith("pass.")]  # of several hosts: buddy_test.py


def kills(world: int) -> list[tuple[str, int]]:
    """Every place with every rank that passes it: rank 0 alone commits and prunes, the others alone leave notes."""
    of_rank_0 = {point for point in POINTS if point.startswith(("commit.", "prune."))}
    return [(point, rank) for point in POINTS for rank in range(world)
            if (rank == 0 or point not in of_rank_0) and not (rank == 0 and point == "save.noted")]


@pytest.mark.parametrize("point, rank", kills(2), ids=lambda word: str(word))
def test_a_rank_that_dies_anywhere_in_a_save_or_a_load_changes_no_loss(weft, tiny, tmp_path, point, rank):
    """Steps 1 to 3 are saved before; the first attempt then dies, the second one goes on."""
    words = ["-n", "2", "--save", "s", "--save-every", "1", "--keep-last", "2"]
    assert weft("train", *tiny, *COMMON, *words, "--steps", "3").code == 0
    done = weft("train", *tiny, *COMMON, *words, "--steps", "6", "--restarts", "1", "--resume", "--json", "out.json", env={"WEFT_KILL_AT": f"{rank}:{point}:1"})
    assert done.code == 0, done.err
    assert f"dying at {point}" in done.err
    whole = bits(weft, tiny, "-n", "2", "--steps", "6")
    out = json.loads((tmp_path / "out.json").read_text())  # of the attempt that ended last
    assert out["first_step"] >= 3 and out["loss_bits"] == whole[out["first_step"]:]
    assert steps_in(tmp_path / "s") == [5, 6]
