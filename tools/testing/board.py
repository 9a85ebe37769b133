"""How far all tests are: counts cases as they end and tells tools/progress, which draws the line that moves.

The unit of work is a millisecond of expected run time, so that the time left means something; the text counts cases.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional

from testing.results import Result, Times, is_python

SHOWN_LINES = 12  # a failure is cut to these while others run; the end of the run shows more


def excerpt(text: str) -> list[str]:
    """The assertion: pytest marks its lines with E, GoogleTest begins it with file:line: Failure."""
    lines = text.splitlines()
    asserted = [line for line in lines if line.startswith("E  ")]
    if not asserted:
        first = next((number for number, line in enumerate(lines) if line.endswith(": Failure")), 0)
        asserted = lines[first:]
    return asserted[:SHOWN_LINES]


class Board:
    def __init__(self, root: Path, times: Times):
        self._times = times
        self._expected_ms: dict[str, int] = {}
        self._guessed_ms = 0  # for cases whose names are not known yet
        self._done_ms = 0
        self.results: dict[str, Result] = {}
        self._line: Optional[subprocess.Popen] = subprocess.Popen([root / "tools/progress", "test"], stdin=subprocess.PIPE, text=True)

    def expect(self, names: list[str]) -> None:
        for name in names:
            self._expected_ms.setdefault(name, max(1, int(1000 * self._times.expected_s(name))))
        if any(map(is_python, names)):
            self._guessed_ms = 0
        self._update()

    def guess(self, seconds: float) -> None:
        """Work that is coming and cannot be counted yet."""
        self._guessed_ms = int(1000 * seconds)
        self._update()

    def add(self, result: Result) -> None:
        if result.name in self.results:
            return
        self.results[result.name] = result
        self._expected_ms.setdefault(result.name, 1)
        self._done_ms += self._expected_ms[result.name]
        if result.outcome == "failed":
            self.say(f"FAILED {result.name}", *excerpt(result.text))
        self._update()

    def missing(self) -> list[str]:
        """Cases that were expected and have no result."""
        return [name for name in self._expected_ms if name not in self.results]

    def count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self.results.values())

    def say(self, *lines: str) -> None:
        self._write("".join(f"! {line}\n" for line in lines))

    def end(self) -> None:
        """Ends the line; what is printed from here on comes below it."""
        line, self._line = self._line, None
        if line is not None:
            try:
                line.stdin.close()
            except BrokenPipeError:
                pass
            line.wait()

    def _update(self) -> None:
        total_ms = sum(self._expected_ms.values()) + self._guessed_ms
        # What failed comes first: on a narrow terminal the end of the text is cut off.
        text = f"{self.count('failed')} failed, {len(self.results)} of {len(self._expected_ms)} cases done"
        self._write(f"{self._done_ms} {total_ms} {text}\n")

    def _write(self, text: str) -> None:
        if self._line is None:
            return
        try:
            self._line.stdin.write(text)
            self._line.stdin.flush()
        except BrokenPipeError:
            self._line = None  # it was ended; the tests go on without it
