"""What `make check` runs for a change: the tests of the rooms it touches, then of those above them as far as the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from check_layers import OPEN_TO_ALL, Table, includes_of, sources
from check_lib.binaries import kept_seconds, row_of, seconds_of, binaries_by_room
from check_lib.python_map import entries_for

# Seconds of tests that have not run here yet.
UNKNOWN_S = 10.0
HEADERS = (".h",)


class Choice(NamedTuple):
    what: str  # a test binary, or a Python file or folder
    why: str
    seconds: float


class Plan(NamedTuple):
    binaries: list[Choice]
    python: list[Choice]
    targets: list[str]  # what to build
    left: list[Choice]  # these would fit the change, and not the time
    notes: list[str]


def headers_of(root: Path, changed: list[str]) -> set[str]:
    """Changed headers, and those beside changed sources: what files of other rooms may include of the change."""
    stems = {str(Path(name).with_suffix("")) for name in changed if Path(name).suffix in (".h", ".cpp", ".cu")}
    return {stem + ending for stem in stems for ending in HEADERS if stem + ending in changed or (root / (stem + ending)).is_file()}


def including_rooms(root: Path, table: Table, headers: set[str]) -> set[str]:
    """Rooms with a file that includes one of these."""
    if not headers:
        return set()
    found = (row_of(table, include.file) for file in sources(root) for include in includes_of(root, file) if include.path in headers)
    return {room for room in found if room is not None}


def rooms_above(table: Table, touched: list[str], including: set[str]) -> dict[str, str]:
    """Each with why. A room that all may include has all above it: of these only those that include what changed."""
    found: dict[str, str] = {}
    for row in table.rows.values():
        below = [room for room in touched if room in row.includes or ("*" in row.includes and room not in OPEN_TO_ALL)]
        if row.room in touched:
            continue
        if row.room in including:
            found[row.room] = "includes what changed"
        elif below:
            found[row.room] = f"may include {', '.join(below)}"
    # What includes the change itself goes before what only might.
    return dict(sorted(found.items(), key=lambda item: item[1] != "includes what changed"))


def touched_rooms(table: Table, changed: list[str]) -> list[str]:
    """Rooms of weft/, and folders of tests/ with binaries of their own."""
    found = [row_of(table, name) or str(Path(name).parent) for name in changed if name.endswith((".h", ".cpp", ".cu", "CMakeLists.txt"))]
    return list(dict.fromkeys(found))


def within(choices: list[Choice], seconds: float) -> tuple[list[Choice], list[Choice]]:
    """Those that fit in, and those that do not; one that is too long does not keep out a shorter one after it."""
    taken, left = [], []
    for choice in choices:
        (taken if choice.seconds <= seconds else left).append(choice)
        seconds -= choice.seconds if choice.seconds <= seconds else 0
    return taken, left


def python_choices(root: Path, changed: list[str], kept: dict[str, float]) -> tuple[list[Choice], dict[str, tuple[str, ...]]]:
    """Tests with why, and what each needs of the build."""
    found: dict[str, Choice] = {}
    targets: dict[str, tuple[str, ...]] = {}
    for name in changed:
        for entry in entries_for(root, name):
            for test in entry.tests:
                found.setdefault(test, Choice(test, f"{name} changed", seconds_of(test, kept, UNKNOWN_S)))
                targets[test] = entry.targets
    return list(found.values()), targets


def split_built(choices: list[Choice], build: Path) -> tuple[list[Choice], list[Choice]]:
    """Rooms above a change whose tests were never built here would cost minutes of compiling."""
    built = [choice for choice in choices if (build / "bin" / choice.what).is_file()]
    others = [choice._replace(why=f"{choice.why}; it is not built yet") for choice in choices if choice not in built]
    return built, others


def make_plan(root: Path, table: Table, changed: list[str], build: Path, seconds: float) -> Plan:
    kept = kept_seconds(build)
    binaries = binaries_by_room(root, table)

    def choices(room: str, why: str) -> list[Choice]:
        return [Choice(name, f"{room} {why}", seconds_of(name, kept, UNKNOWN_S)) for name in binaries.get(room, [])]

    touched = touched_rooms(table, changed)
    own = [choice for room in touched for choice in choices(room, "changed")]
    above = rooms_above(table, touched, including_rooms(root, table, headers_of(root, changed)))
    built, unbuilt = split_built([choice for room, why in above.items() for choice in choices(room, why)], build)
    python, needs = python_choices(root, changed, kept)
    taken, left = within([*python, *built], seconds - sum(choice.seconds for choice in own))
    in_python = [choice for choice in taken if choice.what in needs]
    in_cpp = own + [choice for choice in taken if choice.what not in needs]
    targets = [choice.what for choice in in_cpp] + [target for choice in in_python for target in needs[choice.what]]
    notes = [f"{room} lies below every room: of those above it only those that include what changed" for room in touched if room in OPEN_TO_ALL]
    return Plan(in_cpp, in_python, list(dict.fromkeys(targets)), left + unbuilt, notes)
