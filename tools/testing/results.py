"""What became of each case, the times that are kept from run to run, and the file that other tools read."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Iterable

# What a case is expected to take before it has been timed once.
UNKNOWN_CPP_S, UNKNOWN_PYTHON_S = 0.1, 0.6
UNKNOWN_PYTHON_CASES_S = 700.0  # all of them, which pytest counts only when it runs


@dataclasses.dataclass(frozen=True)
class Result:
    name: str  # base_test:Aio.Reads, or tests/cli/run_test.py::test_help
    outcome: str  # passed, failed or skipped
    seconds: float
    text: str = ""  # what a failed one printed, or why one was skipped
    repeat: str = ""  # the command that runs it alone


def is_python(name: str) -> bool:
    return "::" in name


class Times:
    """Seconds of each case in the last run that had it; a new case counts as `hints` says, or else as the middle of its kind."""

    def __init__(self, path: Path, hints: dict[str, float]):
        self._path, self._hints = path, hints
        try:
            self._seconds: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._seconds = {}
        self._cpp_s = self._middle(False, UNKNOWN_CPP_S)
        self._python_s = self._middle(True, UNKNOWN_PYTHON_S)

    def _middle(self, python: bool, unknown_s: float) -> float:
        known = [seconds for name, seconds in self._seconds.items() if is_python(name) == python]
        return statistics.median(known) if known else unknown_s

    def expected_s(self, name: str) -> float:
        usual_s = self._python_s if is_python(name) else self._cpp_s
        return self._seconds.get(name, self._hints.get(name, usual_s))

    def python_s(self) -> float:
        """All Python cases together."""
        return sum(seconds for name, seconds in self._seconds.items() if is_python(name)) or UNKNOWN_PYTHON_CASES_S

    def keep(self, results: Iterable[Result]) -> None:
        self._seconds |= {one.name: round(one.seconds, 3) for one in results if one.outcome == "passed"}
        write_whole(self._path, json.dumps(self._seconds, indent=0, sort_keys=True) + "\n")

    def for_pytest(self) -> Path:
        """A file that has the hints too."""
        path = self._path.with_name("pytest-times.json")
        write_whole(path, json.dumps(self._hints | self._seconds))
        return path


def read_hints(path: Path) -> dict[str, float]:
    """Of tests/long_cases.tsv: a name and seconds with a tab between."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    rows = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return {name: float(seconds) for name, seconds in rows}


def write_whole(path: Path, text: str) -> None:
    """Readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def row_of(one: Result) -> dict[str, object]:
    row: dict[str, object] = {"case": one.name, "seconds": round(one.seconds, 3), "outcome": one.outcome}
    return row | {"repeat": one.repeat} if one.outcome == "failed" and one.repeat else row


def write_results(path: Path, preset: str, seconds: float, is_whole: bool, results: list[Result]) -> None:
    """`is_whole`: every case of the preset ran; false with a filter, and after Ctrl-C."""
    cases = [row_of(one) for one in sorted(results, key=lambda result: result.name)]
    head = {"schema": 1, "preset": preset, "seconds": round(seconds, 1), "is_whole": is_whole}
    rows = ",\n".join(json.dumps(case) for case in cases)
    write_whole(path, json.dumps(head)[:-1] + ', "cases": [\n' + rows + "\n]}\n")
