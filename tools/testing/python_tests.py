"""Runs pytest over tests/ and hands on what its plugin (pytest_events.py) tells."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Callable, Optional

from testing.pool import kill_tree
from testing.results import Result

PLUGIN = "tools.testing.pytest_events"
NO_CASES = 5  # pytest's exit code
LOG_LINES = 30
# Python tests wait a part of their time: three for two cores keep both busy. Each may have four ranks with libtorch.
WORKERS_A_CORE = 1.5
WORKER_BYTES = 1 << 30


def workers_for(jobs: int) -> int:
    if jobs == 1:
        return 1
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    free_kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return max(jobs, min(int(WORKERS_A_CORE * jobs), free_kib * 1024 // WORKER_BYTES))


def find_python(root: Path) -> str:
    """The interpreter of tools/setup, as the Makefile hands it on or as it is written down."""
    if os.environ.get("WEFT_PYTHON"):
        return os.environ["WEFT_PYTHON"]
    try:
        lines = (root / "build/setup.env").read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["WEFT_PYTHON"]
    except (OSError, KeyError):
        return sys.executable


@dataclasses.dataclass(frozen=True)
class Ask:
    """What to run."""

    root: Path
    preset: str
    folders: tuple[str, ...]  # below tests/; empty: all
    wanted: str  # a part of the name
    jobs: int
    times: Path


class PythonTests:
    def __init__(self, ask: Ask, on_collected: Callable[[list[str]], None], on_result: Callable[[Result], None]):
        self._ask, self._on_collected, self._on_result = ask, on_collected, on_result
        self._python = find_python(ask.root)
        self._process: Optional[subprocess.Popen] = None
        self.log = ask.root / "build" / ask.preset / "pytest.log"

    def run(self) -> None:
        """Those marked serial run after the others, with nothing beside them."""
        folders = [f"tests/{folder}" for folder in self._ask.folders]
        if self._ask.jobs == 1:
            self._pytest(folders)
            return
        self._pytest(folders, "-m", "not serial", "-n", str(workers_for(self._ask.jobs)), "--dist", "loadgroup", "--no-loadscope-reorder")
        if serial := self._files_with_serial():
            self._pytest(serial, "-m", "serial")

    def _files_with_serial(self) -> list[str]:
        """These alone: to collect all files takes as long as many a test."""
        root = self._ask.root
        folders = [root / "tests" / folder for folder in self._ask.folders] or [root / "tests"]
        files = sorted(path for folder in folders for path in folder.rglob("*_test.py"))
        return [str(path.relative_to(root)) for path in files if "mark.serial" in path.read_text(encoding="utf-8")]

    def kill(self) -> None:
        if self._process is not None:
            kill_tree(self._process)

    def _command(self, events_fd: int, places: list[str], *more: str) -> list[str]:
        ask = self._ask
        return [self._python, "-m", "pytest", "-q", "-p", PLUGIN, "--weft-events", str(events_fd), "--weft-filter", ask.wanted,
                "--weft-times", str(ask.times), *more, *places]

    def _pytest(self, places: list[str], *more: str) -> None:
        read_fd, write_fd = os.pipe()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log, os.fdopen(read_fd, encoding="utf-8") as events:
            self._process = subprocess.Popen(self._command(write_fd, places, *more), cwd=self._ask.root, env=self._environment(), stdout=log, stderr=subprocess.STDOUT,
                                             pass_fds=[write_fd])
            os.close(write_fd)
            for line in events:
                self._event(json.loads(line))
            code = self._process.wait()
        if code not in (0, 1, NO_CASES):
            self._failed_as_a_whole(code)

    def _environment(self) -> dict[str, str]:
        env = dict(os.environ)
        if self._ask.preset != "release":
            env["WEFT_BUILD_DIR"] = f"build/{self._ask.preset}"
        return env

    def _event(self, event: dict) -> None:
        if event["kind"] == "collected":
            self._on_collected(event["ids"])
        else:
            self._on_result(Result(event["id"], event["outcome"], event["seconds"], event["text"], self.repeat(event["id"])))

    def _failed_as_a_whole(self, code: int) -> None:
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        missing = "\n  do: tools/setup --test" if "No module named" in tail or "unrecognized arguments" in tail else ""
        text = f"pytest ended with exit code {code} (log: {self.log})\n{tail}{missing}"
        self._on_result(Result("pytest::itself", "failed", 0.0, text, self.repeat("tests")))

    def repeat(self, name: str) -> str:
        words = [self._python, "-m", "pytest", name.removesuffix("::collection")]
        before = "" if self._ask.preset == "release" else f"WEFT_BUILD_DIR=build/{self._ask.preset} "
        if Path(words[0]).is_relative_to(self._ask.root):
            words[0] = str(Path(words[0]).relative_to(self._ask.root))
        return before + shlex.join(words)
