"""Runs the steps: one after another, those marked `beside` in a lane of their own. The first that fails ends all."""

from __future__ import annotations

import queue
import signal
import threading
import time
from pathlib import Path
from typing import NamedTuple

from ci_lib.budget import Budget, minutes_left
from ci_lib.process import Command
from ci_lib.steps import Step


class Done(NamedTuple):
    name: str
    seconds: float
    code: int
    beside: bool


class Running(NamedTuple):
    step: Step
    words: str  # the command as it was run
    command: Command
    began: float
    began_wall: float  # seconds since 1970, to compare with files


class Failed(Exception):
    """A step ended with another code than 0."""

    def __init__(self, running: Running, done: Done):
        super().__init__(done.name)
        self.running, self.done = running, done


class Stopped(Exception):
    """A signal came."""


STOP = ""  # in the queue of ended steps, where a step has its name


class Run:
    def __init__(self, root: Path, logs: Path, budget: Budget, began: float):
        self._root, self._logs, self._budget, self._began = root, logs, budget, began
        self._running: dict[str, Running] = {}
        self._lane: list[Step] = []
        # A signal handler puts into it too, which a Queue would not allow.
        self._ended: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._one_line = threading.Lock()
        self.done: list[Done] = []
        self.unfinished: list[str] = []  # what ran when another step failed, or a signal came

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def all(self, steps: list[Step]) -> None:
        """Returns when every step has passed. Whatever ends it sooner, Failed or Stopped, leaves nothing running."""
        try:
            for step in steps:
                self._take(step)
            self._wait_for_beside([step.name for step in steps if step.beside])
        finally:
            for name, running in self._running.items():
                self.unfinished.append(name)
                running.command.end()

    def stop(self, number: int, _frame: object = None) -> None:
        """A handler of signals. It only leaves word: a step that is just being started must not be lost."""
        self._ended.put((STOP, number))

    def say(self, line: str) -> None:
        with self._one_line:
            print(line, flush=True)

    def _take(self, step: Step) -> None:
        if step.beside:
            self._lane.append(step)
            self._start_lane()
            return
        if step.after is not None:
            self._wait_for_beside([step.after])
        self._start(step)
        self._wait_for(step.name)

    def _start_lane(self) -> None:
        if self._lane and not any(running.step.beside for running in self._running.values()):
            self._start(self._lane.pop(0))

    def _start(self, step: Step) -> None:
        words = self._words(step)
        at_s = round(self.elapsed_s())
        self.say(f"== ci: {step.name}, {at_s // 60}:{at_s % 60:02} after the beginning: {words}")
        prefix = f"{step.name} | " if step.beside else ""
        command = Command(words, self._root, self._logs / step.log_name, lambda line: self.say(prefix + line.rstrip("\n")),
                          lambda code: self._ended.put((step.name, code)), nice=step.beside)
        self._running[step.name] = Running(step, words, command, time.monotonic(), time.time())

    def _words(self, step: Step) -> str:
        return step.command.replace("{minutes}", f"{minutes_left(self._budget, step, self.elapsed_s()):g}")

    def _wait_for_beside(self, names: list[str]) -> None:
        """The time that nothing else runs is a row of its own, so that the table adds up."""
        began = time.monotonic()
        waited = [name for name in names if not self._has_ended(name)]
        for name in waited:
            self.say(f"ci: waiting for {name}")
            self._wait_for(name)
        if waited:
            self.done.append(Done(f"waiting for {waited[-1]}", time.monotonic() - began, 0, beside=False))

    def _has_ended(self, name: str) -> bool:
        return any(done.name == name for done in self.done)

    def _wait_for(self, name: str) -> None:
        while not self._has_ended(name):
            self._note(*self._ended.get())

    def _note(self, name: str, code: int) -> None:
        if name == STOP:
            raise Stopped(signal.Signals(code).name)
        running = self._running.pop(name)
        done = Done(name, time.monotonic() - running.began, code, running.step.beside)
        self.done.append(done)
        if code != 0:
            raise Failed(running, done)
        self._start_lane()

