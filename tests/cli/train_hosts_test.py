"""`weft train` on two hosts: what the cable carries in stages 1 and 2; and with a copy of stage 3's parameters in each host and without, the same bits,
fewer bytes on the wire."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

DEADLINE_S = 120.0
HERE = pathlib.Path(__file__)
NETLAB = HERE.resolve().parents[2] / "tools" / "netlab"
SHAPE = "--dim 128 --layers 4 --heads 4 --vocab 512 --seq 16 --micro-batch 1 --data random --threads 1".split()

# Nothing stays from forward to backward, so that without a copy every parameter that backward reads is gathered again.
TIGHT = {"stage": 3, "reduce_bucket_size": 100_000, "stage3_max_live_parameters": 0, "stage3_param_persistence_threshold": 0}


def config(zero: dict, accumulation: int = 1) -> dict:
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulation, "gradient_clipping": 0,
            "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": zero}


def words(build_dir: pathlib.Path, folder: pathlib.Path, settings: dict, steps: int) -> list[str]:
    (folder / "here.json").write_text(json.dumps(settings))
    return [str(build_dir / "bin" / "weft"), "train", *SHAPE, "--steps", str(steps), "--config", str(folder / "here.json"), "--json", str(folder / "out.json")]


def finished(command: list[str], folder: pathlib.Path) -> dict:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "out.json").read_text())


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_copy_in_each_host_changes_no_bit(build_dir, tmp_path, accumulation):
    """Hosts are names here: ranks with different names share no memory."""

    def run(zero: dict) -> dict:
        inner = 'WEFT_HOST_ID=$FAKE_HOST MASTER_ADDR=127.0.0.1 exec "$@"'
        hosts = [str(build_dir / "bin" / "weft"), "run", "--ssh", f"{sys.executable} {HERE.with_name('fake_ssh.py')}", "--hosts", "a:2,b:2", "--", "/bin/sh", "-c",
                 inner, "sh"]
        return finished([*hosts, *words(build_dir, tmp_path, config(zero, accumulation), 4)], tmp_path)

    expected = run({"stage": 2})
    assert expected["world"] == 4 and len(set(expected["loss_bits"])) == 4
    without = run(TIGHT)
    copied = run(TIGHT | {"zero_hpz_partition_size": 2})
    assert without["loss_bits"] == expected["loss_bits"]
    assert copied["loss_bits"] == expected["loss_bits"]
    assert copied["bytes_sent"] < without["bytes_sent"]
    assert copied["state_bytes"]["params"] == pytest.approx(2 * without["state_bytes"]["params"], rel=0.02)


def sent_by(host: str) -> int:
    table = subprocess.run([NETLAB, "run", host, "--", "cat", "/proc/net/dev"], capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
    rows = [line.split(":") for line in table.splitlines() if ":" in line]
    return sum(int(numbers.split()[8]) for name, numbers in rows if name.strip() != "lo")


@pytest.fixture
def lab(monkeypatch):
    """Two hosts of a lab, gone afterwards."""
    can = subprocess.run([NETLAB, "check"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if can.returncode != 0:
        pytest.skip(f"no network lab here: {can.stderr.strip()}")
    monkeypatch.setenv("WEFT_NETLAB", f"hosts{os.getpid()}")  # other tests may have labs at the same time
    subprocess.run([NETLAB, "down"], check=True, capture_output=True, timeout=DEADLINE_S)
    subprocess.run([NETLAB, "up", "2"], check=True, capture_output=True, timeout=DEADLINE_S)
    yield
    subprocess.run([NETLAB, "down"], check=True, capture_output=True, timeout=DEADLINE_S)


def of_a_step(build_dir: pathlib.Path, folder: pathlib.Path, per_host: int, zero: dict) -> tuple[dict, float, float]:
    """What a rank counts, and what its host's cable carried; without what a run begins and ends with."""
    hosts = [str(build_dir / "bin" / "weft"), "run", "--ssh", f"{NETLAB} ssh", "--hosts", f"host0:{per_host},host1:{per_host}", "--"]

    def run(steps: int) -> tuple[dict, int]:
        before = sent_by("host1")
        out = finished([*hosts, *words(build_dir, folder, config(zero), steps)], folder)
        return out, sent_by("host1") - before

    (short, few), (long, many) = run(2), run(10)
    return long, (long["bytes_sent"] - short["bytes_sent"]) / 8, (many - few) / 8


@pytest.mark.parametrize("stage", [1, 2])
def test_the_cable_carries_half_of_the_gradients_and_half_of_the_parameters(build_dir, tmp_path, lab, stage):
    out, counted, carried = of_a_step(build_dir, tmp_path, 1, {"stage": stage, "reduce_bucket_size": 100_000, "overlap_comm": True})
    bytes_of_all = 4 * out["params"]
    assert out["stage"] == stage
    assert counted == pytest.approx(bytes_of_all, rel=0.01)
    assert carried == pytest.approx(bytes_of_all, rel=0.05)


def test_parameters_cross_the_wire_once_a_step(build_dir, tmp_path, lab):
    out, counted, carried = of_a_step(build_dir, tmp_path, 2, TIGHT)
    copied, copied_counted, copied_carried = of_a_step(build_dir, tmp_path, 2, TIGHT | {"zero_hpz_partition_size": 2})
    assert copied["loss_bits"] == out["loss_bits"]
    bytes_of_all = 4 * out["params"]
    # Half of the gradients leave a host, and half of what is gathered: of that a rank counts three quarters, and with a copy in the host
    # a quarter of the parameters. Headers and beats come to it.
    gathered = (counted - 0.75 * bytes_of_all) / 0.75
    assert 1.4 * bytes_of_all < gathered < 2.1 * bytes_of_all
    assert copied_counted == pytest.approx(bytes_of_all, rel=0.02)
    assert carried == pytest.approx((bytes_of_all + gathered) / 2, rel=0.08)
    assert copied_carried == pytest.approx(bytes_of_all, rel=0.08)
    assert copied_carried < 0.8 * carried
