"""Runs suites, several at once, and hands on what they print."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

from testing.gtest_stream import GtestStream
from testing.results import Result
from testing.suites import Suite

TICK_S = 0.5


def descendants(pid: int) -> list[int]:
    """Every process below, parents first."""
    found, at = [pid], 0
    while at < len(found):
        for task in Path(f"/proc/{found[at]}/task").glob("*/children"):
            try:
                found += [int(word) for word in task.read_text().split()]
            except OSError:
                pass  # it has ended
        at += 1
    return found[1:]


def kill_tree(process: subprocess.Popen) -> None:
    """With all that it started: ranks and programs under test have groups of their own."""
    for pid in [process.pid, *descendants(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def environment_of(suite: Suite) -> dict[str, str]:
    """Without the caller's wishes to GoogleTest: colours, or no line for each case, would be hard to read here."""
    return {key: value for key, value in os.environ.items() if not key.startswith("GTEST_")} | suite.env


class Running:
    """One suite under way. Standard input and the process group are ours, as under ctest."""

    def __init__(self, suite: Suite, root: Path, on_result: Callable[[Result], None]):
        self.suite = suite
        self.stream = GtestStream(suite.cases, self._heard(on_result), lambda case: suite.repeat(case, root))
        self.process = subprocess.Popen(suite.command, cwd=suite.folder, env=environment_of(suite), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self.process.stdout.fileno(), False)
        self._last_s = time.monotonic()
        self._is_hung = False

    def _heard(self, on_result: Callable[[Result], None]) -> Callable[[Result], None]:
        def hear(result: Result) -> None:
            self._last_s = time.monotonic()
            on_result(result)

        return hear

    def read(self) -> bool:
        """False once the output has ended."""
        data = self.process.stdout.read(1 << 16)
        if data:
            self.stream.feed(data)
        return data != b""

    def kill_if_hung(self) -> None:
        if time.monotonic() - self._last_s > self.suite.limit_s:
            self._is_hung = True
            kill_tree(self.process)

    def has_ended(self) -> bool:
        """A program that a test left behind may hold the output open for longer than the binary lives."""
        return self.process.poll() is not None

    def end(self) -> None:
        while self.process.stdout and (data := self.process.stdout.read(1 << 16)):
            self.stream.feed(data)
        self.process.stdout.close()
        code = self.process.wait()
        outcome = "skipped" if code == self.suite.skip_code else "passed" if code == 0 and self.suite.is_plain else "failed"
        self.stream.end(self._how(code), outcome)

    def _how(self, code: int) -> str:
        if self._is_hung:
            return f"no case ended within {self.suite.limit_s:.0f} s and the watchdog did not end it either: killed"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return {0: "", 124: "it hung: exit code 124, the stacks are above"}.get(code, f"exit code {code}")


class Pool:
    def __init__(self, root: Path, jobs: int, on_result: Callable[[Result], None]):
        self._root, self._jobs, self._on_result = root, jobs, on_result
        self._waiting: list[Suite] = []
        self._running: list[Running] = []
        self._selector = selectors.DefaultSelector()

    def run(self, suites: list[Suite]) -> None:
        """In this order; those that must be alone at the end."""
        self._waiting = sorted(suites, key=lambda suite: suite.is_serial)
        while self._waiting or self._running:
            while self._may_start():
                self._start(self._waiting.pop(0))
            for key, _ in self._selector.select(TICK_S):
                if not key.data.read():
                    self._selector.unregister(key.data.process.stdout)
            for one in list(self._running):
                one.kill_if_hung()
                if one.has_ended():
                    self._end(one)

    def _may_start(self) -> bool:
        if not self._waiting or len(self._running) >= self._jobs:
            return False
        return not self._running or not (self._waiting[0].is_serial or self._running[0].suite.is_serial)

    def _start(self, suite: Suite) -> None:
        one = Running(suite, self._root, self._on_result)
        self._running.append(one)
        self._selector.register(one.process.stdout, selectors.EVENT_READ, one)

    def _end(self, one: Running) -> None:
        if one.process.stdout in {key.fileobj for key in self._selector.get_map().values()}:
            self._selector.unregister(one.process.stdout)
        one.end()
        self._running.remove(one)

    def kill(self) -> None:
        self._waiting = []
        for one in self._running:
            kill_tree(one.process)
        self._running = []
