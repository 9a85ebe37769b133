"""What is said when all tests have ended. The last line is alone: "N passed, N failed, N skipped"."""

from __future__ import annotations

from typing import Iterator

from testing.results import Result

NUM_SLOWEST = 10
NUM_NAMES = 3  # cases named for each reason of skipping
FAILURE_LINES = 40  # each failure shows its start and its end
MANY_FAILURES = 20  # more than these are listed by name alone


def count_line(results: list[Result]) -> str:
    counts = {outcome: sum(one.outcome == outcome for one in results) for outcome in ("passed", "failed", "skipped")}
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())


def slowest(results: list[Result]) -> Iterator[str]:
    timed = sorted((one for one in results if one.seconds > 0), key=lambda one: -one.seconds)[:NUM_SLOWEST]
    if timed:
        yield "slowest:"
    for one in timed:
        yield f"{one.seconds:7.1f} s  {one.name}"


def skipped(results: list[Result]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for one in results:
        if one.outcome == "skipped":
            by_reason.setdefault(one.text, []).append(one.name)
    if by_reason:
        yield "skipped:"
    for reason, names in sorted(by_reason.items(), key=lambda entry: -len(entry[1])):
        more = f" and {len(names) - NUM_NAMES} more" if len(names) > NUM_NAMES else ""
        yield f"  {len(names)} x {reason}"
        yield f"      {', '.join(names[:NUM_NAMES])}{more}"


def shortened(text: str) -> list[str]:
    lines = text.splitlines()
    if len(lines) <= FAILURE_LINES:
        return lines
    half = FAILURE_LINES // 2
    return [*lines[:half], f"... {len(lines) - FAILURE_LINES} lines left out ...", *lines[-half:]]


def failed(results: list[Result]) -> Iterator[str]:
    found = [one for one in results if one.outcome == "failed"]
    for one in found[:MANY_FAILURES]:
        yield f"FAILED {one.name}"
        yield from (f"  {line}" for line in shortened(one.text))
    if found:
        yield "to repeat what failed:"
    yield from (f"  {one.repeat or one.name}" for one in found)


def summary(results: list[Result]) -> Iterator[str]:
    ordered = sorted(results, key=lambda one: one.name)
    yield from slowest(ordered)
    yield from skipped(ordered)
    yield from failed(ordered)
    yield count_line(ordered)
