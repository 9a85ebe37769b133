"""A bounded number of fault_trials.py: every run of the tests kills, stops and cuts off a few ranks."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def lab_is_possible() -> bool:
    return subprocess.run([str(ROOT / "tools/netlab"), "check"], capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize(("transport", "count", "seed"), [("shm", 8, 100), ("gloo", 8, 200), ("hosts", 8, 300)])
def test_survivors_name_the_lost_rank(build_dir, transport, count, seed):
    program = build_dir / "bin/comm_trial_rank"
    assert program.exists(), "comm_trial_rank is not built"
    command = [sys.executable, str(HERE / "fault_trials.py"), "--count", str(count), "--seed", str(seed),
               "--transports", transport, "--program", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cut_host_is_named_by_both_sides(build_dir):
    if not lab_is_possible():
        pytest.skip("this machine can have no network lab (root, iproute2 and namespaces are needed)")
    command = [sys.executable, str(HERE / "fault_trials.py"), "--count", "4", "--seed", "400", "--transports", "gloo,hosts",
               "--only", "cut", "--lab", "--program", str(build_dir / "bin/comm_trial_rank")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
