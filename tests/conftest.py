"""Fixtures for the tests that run the real binaries. Every run has a deadline; a hung one has its stacks printed and is killed with its whole group."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

DEADLINE_S = 120.0

# Started with nohup or in the background, we would hand ignored signals on to every program under test, and no shell can trap those.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


@dataclasses.dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


def stacks_of(pid: int) -> str:
    tool = shutil.which("eu-stack")
    if tool is None:
        return "(no eu-stack to print the stacks with: apt-get install elfutils)"
    return subprocess.run([tool, "-p", str(pid)], capture_output=True, text=True, timeout=20, check=False).stdout


def run_with_deadline(command: list[str], deadline_s: float = DEADLINE_S, **options) -> Finished:
    """Runs to the end. At the deadline: stacks, SIGKILL for the group, a test failure that shows all of it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        stacks = stacks_of(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"no end within {deadline_s} s: {command}\n{stacks}\n--- stdout\n{out}\n--- stderr\n{err}")
    return Finished(process.returncode, out, err)


@pytest.fixture(scope="session")
def build_dir() -> pathlib.Path:
    folder = (ROOT / os.environ.get("WEFT_BUILD_DIR", "build/release")).resolve()
    assert (folder / "bin" / "weft").exists(), f"no weft in {folder}: build first (make)"
    return folder


@pytest.fixture
def weft(build_dir: pathlib.Path, tmp_path: pathlib.Path):
    """Runs weft in an empty folder and an environment that does not depend on the caller's terminal."""

    def run(*arguments: str, deadline_s: float = DEADLINE_S, env: dict[str, str] | None = None) -> Finished:
        clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "WEFT_LOG")}
        return run_with_deadline([str(build_dir / "bin" / "weft"), *arguments], deadline_s, cwd=tmp_path, env=clean | (env or {}))

    return run


# A model so small that a step takes a millisecond or two.
TINY = ["--dim", "16", "--layers", "1", "--heads", "2", "--seq", "16", "--micro-batch", "2", "--threads", "1"]


@pytest.fixture
def tiny() -> list[str]:
    return list(TINY)
