"""A small tree to break, and a way to run a tool on it: what the tests of our own checkers share."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

# Building the consumer is the slowest command: one file with ATen in it.
DEADLINE_S = 300.0
REPO = Path(__file__).resolve().parents[2]


class Outcome(NamedTuple):
    code: int
    lines: list[str]  # standard output and error together


class Tree:
    """A folder that is filled file by file: tree.add("weft/base/a.h", "...")."""

    def __init__(self, root: Path):
        self.root = root

    def add(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(*command: object, deadline_s: float = DEADLINE_S) -> Outcome:
    """Runs to the end, or to the deadline; then the whole group is killed, so that no compiler outlives its test."""
    words = [str(word) for word in command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"no end within {deadline_s} s: {words}\n{output}") from None
    return Outcome(process.returncode, output.splitlines())
