"""Which test binary belongs to which room, and what its cases took when they ran last."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Optional

from check_layers import CMAKE_CALL, CMAKE_COMMENT, Table

ROOM_TESTS = re.compile(r"\bTESTS\b")


def binaries_by_room(root: Path, table: Table) -> dict[str, list[str]]:
    """By room; those of tests/ stand under their folder, such as tests/support."""
    found: dict[str, list[str]] = defaultdict(list)
    for top in ("weft", "tests"):
        for path in sorted((root / top).rglob("CMakeLists.txt")):
            text = CMAKE_COMMENT.sub("", path.read_text(encoding="utf-8"))
            for call in CMAKE_CALL.finditer(text):
                add(found, table, path.parent.relative_to(root).as_posix(), call)
    return dict(found)


def add(found: dict[str, list[str]], table: Table, folder: str, call: re.Match[str]) -> None:
    if call["command"] == "weft_test":
        # tests/CMakeLists.txt has tests of the folders below it.
        sources = re.search(r"\bSOURCES\s+(\S+)", call["rest"])
        below = sources[1].rpartition("/")[0] if sources else ""
        found[f"{folder}/{below}".rstrip("/")].append(call["name"])
    elif ROOM_TESTS.search(call["rest"]):
        row = table.by_target(call["name"])
        found[row.room if row else folder].append(f"{call['name']}_test")


def kept_seconds(build: Path) -> dict[str, float]:
    """Of each binary and each Python file, as tools/test keeps them from run to run; nothing where none has run yet."""
    try:
        cases = json.loads((build / "test-times.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    sums: dict[str, float] = defaultdict(float)
    for case, seconds in cases.items():
        sums[owner(case)] += seconds
    return dict(sums)


def owner(case: str) -> str:
    """base_test of base_test:Aio.Reads, tests/cli/run_test.py of tests/cli/run_test.py::test_help."""
    return case.partition("::")[0] if "::" in case else case.partition(":")[0]


def seconds_of(what: str, kept: dict[str, float], unknown_s: float) -> float:
    """Of a binary, a Python file, or a folder of these."""
    known = [seconds for name, seconds in kept.items() if name == what or name.startswith(what + "/")]
    return sum(known) if known else unknown_s


def row_of(table: Table, name: str) -> Optional[str]:
    row = table.room_of(name) if name.startswith("weft/") else None
    return row.room if row else None
