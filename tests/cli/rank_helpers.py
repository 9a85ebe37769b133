"""What the tests of `weft run` share: small programs as ranks, and how to wait for them."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import time

import pytest

DEADLINE_S = 60.0


def shell(script: str) -> list[str]:
    return ["--", "/bin/sh", "-c", script]


def counted_lines(out: str, filler_bytes: int) -> tuple[dict[str, int], int]:
    """How many lines "RANK NUMBER FILLER" each rank printed, in order and whole; and the bytes of lines of y."""
    seen: dict[str, int] = {}
    long_bytes = 0
    for line in out.splitlines():
        prefix, rest = re.fullmatch(r"\[rank (\d+)\] (.*)", line).groups()
        if rest.startswith("y"):
            long_bytes += len(rest)
            continue
        rank, number, filler = rest.split()
        assert rank == prefix and int(number) == seen.get(rank, 0) and len(filler) == filler_bytes
        seen[rank] = int(number) + 1
    return seen, long_bytes


def is_running(pid: int) -> bool:
    """A zombie has ended: somebody else may have to reap it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(what: str, condition) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def pids_in(folder: pathlib.Path, count: int) -> list[int]:
    """The process ids that the ranks wrote to pid.*, once all have."""
    found: list[int] = []

    def are_there() -> bool:
        found[:] = [int(text) for text in (f.read_text() for f in folder.glob("pid.*")) if text.endswith("\n")]
        return len(found) == count

    eventually(f"{count} ranks have started", are_there)
    return found


@pytest.fixture
def start(build_dir, tmp_path):
    """Starts weft run and leaves it running; killed at the end if the test has not ended it."""
    with contextlib.ExitStack() as stack:

        def run(*arguments: str, **options) -> subprocess.Popen:
            process = subprocess.Popen([str(build_dir / "bin" / "weft"), "run", *arguments], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, **options)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield run
