"""What made a step fail, and the command that repeats just that: read from test results and from the step's log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Iterator, NamedTuple

# A preset named in a step's command says in which folder it builds; `make` alone builds this one.
DEFAULT_PRESET = "release"
PRESET = re.compile(r"(?<!\S)(?:release|debug|asan|tsan)(?!\S)")

COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
COMPILE_ERROR = re.compile(r"^(?P<file>[^:\s]+):(?P<line>\d+):\d+: (?:fatal )?error: (?P<text>.*)$")
LINK_ERROR = re.compile(r"\b(?:undefined reference to|cannot find -l|multiple definition of|undefined symbol:) |^CMake Error\b")
NINJA_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(?P<target>\S+)")
LINT_FAILED = re.compile(r"^lint: \w+ failed, again: (?P<repeat>.*)$")
FUZZ_FAILED = re.compile(r"^fuzz: (?P<what>\S+ failed on .*): (?P<repeat>\S.*) runs it again\b")
PASSED = ("passed", "skipped")
# The time that a file system gives a file may lie a little before the one that the clock shows.
CLOCK_S = 0.1


class Finding(NamedTuple):
    what: str
    repeat: str


class Told(NamedTuple):
    """What is known of a failed step."""

    command: str
    log: list[str]
    began_wall: float  # seconds since 1970; results written before are another run's
    root: Path

    def build(self) -> str:
        preset = PRESET.search(self.command)
        return f"build/{preset.group() if preset else DEFAULT_PRESET}"

    def short(self, text: str) -> str:
        return text.removeprefix(f"{self.root}/")


def failed_tests(told: Told) -> Iterator[Finding]:
    """From what tools/test leaves in the build folder."""
    path = told.root / told.build() / "test-results.json"
    if not path.is_file() or path.stat().st_mtime < told.began_wall - CLOCK_S:
        return
    results = json.loads(path.read_text(encoding="utf-8"))
    for case in results if isinstance(results, list) else results["cases"]:
        if case["outcome"] not in PASSED:
            repeat = case.get("repeat") or repeat_of(case["case"], told.build())
            yield Finding(f"{case['case']} {case['outcome']} after {case['seconds']:.1f} s", repeat)


def repeat_of(case: str, build: str) -> str:
    """base_test:Aio.Reads, or tests/cli/run_test.py::test_help."""
    if "::" in case:
        return f".venv/bin/python -m pytest '{case}'"
    binary, _, name = case.partition(":")
    return f"{build}/bin/{binary} --gtest_filter='{name}'"


def lint_offences(told: Told) -> Iterator[Finding]:
    """The lines below `lint: CHECK failed`, without the source that a line shows and the differences of made files."""
    repeat = ""
    for line in told.log:
        if header := LINT_FAILED.match(line):
            repeat = header["repeat"]
        elif line.startswith("lint:"):
            repeat = ""
        elif repeat and line and line[0] not in " \t+-@" and ": note: " not in line:
            yield Finding(told.short(line), repeat)


def failing_inputs(told: Told) -> Iterator[Finding]:
    for line in told.log:
        if found := FUZZ_FAILED.match(line):
            yield Finding(found["what"], found["repeat"])


def build_errors(told: Told) -> Iterator[Finding]:
    """Compilers and linkers say what; ninja, above them, which target: to build that one repeats it."""
    repeat = told.command
    for line in told.log:
        if failed := NINJA_FAILED.match(line):
            repeat = f"ninja -C {told.build()} {failed['target']}"
        elif error := COMPILE_ERROR.match(line):
            yield Finding(f"{told.short(error['file'])}:{error['line']}: error: {error['text']}", repeat)
        elif LINK_ERROR.search(line):
            yield Finding(told.short(line), repeat)


def last_words(told: Told) -> Iterator[Finding]:
    """Nothing was understood: an error of ours, else what the step said last."""
    lines = [line for line in told.log if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    for line in errors[-1:] or lines[-3:] or ["it said nothing"]:
        yield Finding(line, told.command)


def findings(told: Told) -> list[Finding]:
    """Of the first reader that finds any; the most exact comes first."""
    plain = told._replace(log=[COLOUR.sub("", line) for line in told.log])
    for reader in (failed_tests, lint_offences, failing_inputs, build_errors, last_words):
        try:
            found = list(dict.fromkeys(reader(plain)))
        except (ValueError, KeyError, TypeError) as problem:
            found = [Finding(f"{reader.__name__} does not understand the results: {problem!r}", told.command)]
        if found:
            return found
    return []


def log_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
