"""The difference of two lists of cases: counts by binary, what is gone and whether that is explained, what is new."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
from pathlib import Path
from typing import Iterator

from testing.case_lists import CI, Case


@dataclasses.dataclass
class Reason:
    """A line of tests/cases_explained.tsv: preset, binary and case as shell patterns, and why they are gone."""

    preset: str
    binary: str
    name: str
    why: str
    used: int = 0

    def fits(self, case: Case) -> bool:
        pairs = ((case.preset, self.preset), (case.binary, self.binary), (case.name, self.name))
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in pairs)


def read_reasons(path: Path) -> list[Reason]:
    if not path.exists():
        return []
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    return [Reason(*row) for row in rows]


class Changes:
    def __init__(self, old: dict[Case, Case], new: dict[Case, Case], reasons: list[Reason]):
        self.old, self.new, self.reasons = old, new, reasons
        self.gone = sorted(set(old) - set(new))
        self.added = sorted(set(new) - set(old))
        self.moved = sorted(case for case in old if case in new and old[case].when == CI != new[case].when)
        self.why = {case: self._why(case) for case in self.gone}
        self.unexplained = [case for case in self.gone if not self.why[case]]

    def _why(self, case: Case) -> str:
        for reason in self.reasons:
            if reason.fits(case):
                reason.used += 1
                return reason.why
        return ""

    def rows(self) -> Iterator[tuple[str, str, int, int, int, int, int]]:
        """Preset, binary, before, after, gone, new, moved to nightly. Python files count by folder."""
        parts = (self.old, self.new, self.gone, self.added, self.moved)
        counts = [collections.Counter(place(case) for case in part) for part in parts]
        for preset, binary in sorted(set(counts[0]) | set(counts[1])):
            yield preset, binary, *(count[preset, binary] for count in counts)


def place(case: Case) -> tuple[str, str]:
    return case.preset, str(Path(case.binary).parent) if case.preset == "python" else case.binary


def report(changes: Changes) -> Iterator[str]:
    yield f"{'':28} {'before':>7} {'after':>7} {'gone':>6} {'new':>6} {'nightly':>8}"
    totals = [0] * 5
    for preset, binary, *numbers in changes.rows():
        totals = [a + b for a, b in zip(totals, numbers)]
        yield f"{preset + ' ' + binary:28} " + "{:7} {:7} {:6} {:6} {:8}".format(*numbers)
    yield f"{'all':28} " + "{:7} {:7} {:6} {:6} {:8}".format(*totals)
    for title, cases in (("gone", changes.gone), ("new", changes.added), ("moved from CI to nightly", changes.moved)):
        for case in cases:
            yield f"{title}: {case.preset} {case.binary} {case.name}" + (f" ({changes.why[case]})" if changes.why.get(case) else "")
    for reason in changes.reasons:
        if not reason.used:
            yield f"a reason that explains nothing: {reason.preset} {reason.binary} {reason.name} ({reason.why})"


def markdown(changes: Changes, old: str, new: str) -> str:
    """Counts alone: the names are thousands."""
    lines = [f"# Test cases of {old} and of {new}", "", "Cases that CI and nightly run together. Compared with `tools/cases compare`.", "",
             "| build | binary or folder | before | after | gone | new | moved to nightly |", "|---|---|---|---|---|---|---|"]
    totals = [0] * 5
    for preset, binary, *numbers in changes.rows():
        totals = [a + b for a, b in zip(totals, numbers)]
        lines.append(f"| {preset} | `{binary}` | " + " | ".join(map(str, numbers)) + " |")
    lines += ["| **all** | | " + " | ".join(f"**{number}**" for number in totals) + " |", "", f"Gone without a reason: {len(changes.unexplained)}."]
    by_why = collections.Counter((case.preset, changes.why[case]) for case in changes.gone if changes.why[case])
    if by_why:
        lines += ["", "| gone from | cases | why |", "|---|---|---|", *(f"| {preset} | {number} | {why} |" for (preset, why), number in by_why.items())]
    return "\n".join(lines) + "\n"
