"""Reads what a GoogleTest binary prints while it runs, and says of each case what became of it."""

from __future__ import annotations

import re
from typing import Callable, Optional

from testing.results import Result

# A test may print without a line end, so that these need not begin their line.
BEGIN = re.compile(r"\[ RUN      \] (\S+)$")
END = re.compile(r"\[(       OK |  FAILED  |  SKIPPED )\] (\S+?)(?:,.*)? \((\d+) ms\)$")
OUTCOMES = {"       OK ": "passed", "  FAILED  ": "failed", "  SKIPPED ": "skipped"}
KEPT_LINES = 400  # for each case: the first half and the last half


class GtestStream:
    """feed() what comes, then end() once. `on_result` is called for each of `cases`, whose names begin with `binary:`."""

    def __init__(self, cases: tuple[str, ...], on_result: Callable[[Result], None], repeat: Callable[[str], str]):
        self._left = dict.fromkeys(cases)
        self._on_result, self._repeat = on_result, repeat
        self._prefix = cases[0].partition(":")[0] + ":"
        self._current: Optional[str] = None
        self._lines: list[str] = []
        self._rest = b""

    @property
    def current(self) -> Optional[str]:
        return self._current

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", "replace").rstrip("\r"))

    def _line(self, line: str) -> None:
        begin, end = BEGIN.search(line), END.search(line)
        if begin and self._current is None and self._prefix + begin[1] in self._left:
            self._current, self._lines = self._prefix + begin[1], []
        elif end and self._current == self._prefix + end[2]:
            self._lines.append(line[: end.start()])
            self._report(self._current, OUTCOMES[end[1]], int(end[3]) / 1000)
            self._current, self._lines = None, []
        else:
            self._lines.append(line)

    def _report(self, case: str, outcome: str, seconds: float) -> None:
        del self._left[case]
        text = "" if outcome == "passed" else skip_reason(self._lines) if outcome == "skipped" else shortened(self._lines)
        self._on_result(Result(case, outcome, seconds, text, self._repeat(case)))

    def end(self, how: str, outcome: str = "failed") -> None:
        """The process has ended; `how` says how, "" for well. `outcome` is that of cases that it said nothing of."""
        if self._rest:
            self._line(self._rest.decode("utf-8", "replace"))
        text = shortened([*self._lines, how or "the process ended before this case did"])
        if self._current:
            self._left.pop(self._current)
            self._on_result(Result(self._current, "failed", 0.0, text, self._repeat(self._current)))
            text = f"it did not run: its process ended in {self._current} ({how or 'exit code 0'})"
        for case in self._left:
            self._on_result(Result(case, outcome, 0.0, text, self._repeat(case)))
        self._left = {}


def skip_reason(lines: list[str]) -> str:
    """GoogleTest prints "file:line: Skipped", then the reason."""
    for number, line in enumerate(lines):
        if line.endswith(": Skipped"):
            return " ".join(text.strip() for text in lines[number + 1:] if text.strip())
    return "no reason given"


def shortened(lines: list[str]) -> str:
    text = [line for line in lines if line.strip()]
    if len(text) > KEPT_LINES:
        half = KEPT_LINES // 2
        text = [*text[:half], f"... {len(text) - KEPT_LINES} lines left out ...", *text[-half:]]
    return "\n".join(text)
