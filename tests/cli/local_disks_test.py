"""Checkpoints on disks of the hosts' own, through the real launcher: `weft train --save-local` with a folder for each "host"."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import pytest

COMMON = ["--data", "random", "--warmup", "0"]
SSH = f"{sys.executable} {pathlib.Path(__file__).with_name('fake_ssh.py')}"
CONFIG = {"train_batch_size": 6, "train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 2}}


@pytest.fixture
def on_hosts(weft, tiny, tmp_path, build_dir):
    """Hosts that are shells of this machine: they share no memory because they say so, and each saves in a folder that has its name."""
    (tmp_path / "ds.json").write_text(json.dumps(CONFIG))

    def run(hosts: str, steps: int, *flags: str):
        words = " ".join([str(build_dir / "bin" / "weft"), "train", *tiny, *COMMON, "--config", "ds.json", "--steps", str(steps), "--json", "out.json", "--save",
                          "s.$FAKE_HOST", "--save-local", *flags])
        done = weft("run", "--ssh", SSH, "--hosts", hosts, "--", "/bin/sh", "-c", f"export WEFT_HOST_ID=$FAKE_HOST; exec {words}")
        out = json.loads((tmp_path / "out.json").read_text()) if done.code == 0 else {}
        return done, out

    return run


def test_each_host_has_its_ranks_files_and_any_ranks_go_on(on_hosts, tmp_path):
    _, whole = on_hosts("127.0.0.1:2,127.0.0.2:1", 8)
    for folder in tmp_path.glob("s.*"):
        shutil.rmtree(folder)
    done, first = on_hosts("127.0.0.1:2,127.0.0.2:1", 4)
    assert done.code == 0, done.err
    assert first["loss_bits"] == whole["loss_bits"][:4]
    names = sorted(path.name for path in (tmp_path / "s.127.0.0.2" / "step_00000004").iterdir())
    assert names == ["manifest.json", "rank_00002.safetensors"]
    for folder in list(tmp_path.glob("s.*")):
        shutil.copytree(folder, tmp_path / f"kept.{folder.name}")
    done, rest = on_hosts("127.0.0.1:2,127.0.0.2:1", 8, "--resume")
    assert done.code == 0 and rest["loss_bits"] == whole["loss_bits"][4:], done.err
    for folder in list(tmp_path.glob("s.*")):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / f"kept.{folder.name}", folder)
    done, rest = on_hosts("127.0.0.3:1,127.0.0.1:1,127.0.0.2:1", 8, "--resume")  # rank 0 is on a host that has nothing
    assert done.code == 0, done.err
    assert rest["first_step"] == 4 and rest["loss"] == pytest.approx(whole["loss"][4:], rel=1e-5)


def test_a_lost_disk_is_named(on_hosts, tmp_path):
    done, _ = on_hosts("127.0.0.1:1,127.0.0.2:2", 3)
    assert done.code == 0, done.err
    shutil.rmtree(tmp_path / "s.127.0.0.2")
    done, _ = on_hosts("127.0.0.1:1,127.0.0.2:2", 5, "--resume")
    assert done.code != 0 and "no host has rank_00001.safetensors of host " in done.err and "rank_00002.safetensors" in done.err


def test_without_the_word_a_folder_that_not_all_see_is_refused(weft, tiny, tmp_path, build_dir):
    words = " ".join([str(build_dir / "bin" / "weft"), "train", *tiny, *COMMON, "--steps", "3", "--save", "s.$FAKE_HOST"])
    done = weft("run", "--ssh", SSH, "--hosts", "127.0.0.1,127.0.0.2", "--", "/bin/sh", "-c", f"export WEFT_HOST_ID=$FAKE_HOST; exec {words}")
    assert done.code != 0 and "not all ranks see the folder" in done.err
