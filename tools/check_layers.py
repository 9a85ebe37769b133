#!/usr/bin/env python3
"""Compares every #include, and every link in a room's CMakeLists.txt, with the table in tools/layers.txt.

    tools/check_layers.py [--root DIR] [--graph [text|dot]]

Exit 0 and one line when all is within the table; exit 1 and one line per offence otherwise. The rules:

  weft/ROOM/    own headers, base, config and the rooms of its row; torch only where the row says so
  *_test.cpp    the same, and tests/support/
  weft/*.h      the public surface: any public header but the command line's
  examples/     any public header of weft but the command line's, and examples/
  tests/        any public header, examples/ and tests/

A header named *_impl.h is public nowhere: only its own room includes it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

OPEN_TO_ALL = ("base", "config")
OUR_ROOTS = ("weft/", "examples/", "tests/")
TORCH_ROOTS = ("torch/", "ATen/", "c10/", "caffe2/")
SOURCE_ENDINGS = {".h", ".cpp", ".cu"}

# Whichever comes first wins, so that a quote inside a comment and a comment inside a string are both read rightly.
# An apostrophe after a digit separates digits (1'000'000) and opens nothing.
LEXEME = re.compile(
    r'(?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)",
    re.DOTALL,
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)', re.MULTILINE)
CMAKE_CALL = re.compile(r"\b(?P<command>weft_room|weft_test)\s*\(\s*(?P<name>[\w/-]+)(?P<rest>[^)]*)\)")
CMAKE_COMMENT = re.compile(r"#[^\n]*")
CMAKE_LINK = re.compile(r"\bweft::(\w+)")


class Row(NamedTuple):
    room: str
    torch: bool
    includes: tuple[str, ...]

    def allows(self, other: str) -> bool:
        if other == self.room or "*" in self.includes or other in self.includes:
            return True
        return other in self.open_rooms()

    def open_rooms(self) -> tuple[str, ...]:
        """Rooms this one sees without naming them: base sees nobody, config sees base, the rest see both."""
        return OPEN_TO_ALL[: OPEN_TO_ALL.index(self.room)] if self.room in OPEN_TO_ALL else OPEN_TO_ALL

    def described(self) -> str:
        return " ".join(self.open_rooms() + self.includes) or "nothing but itself"


class Table:
    def __init__(self, rows: list[Row]):
        self.rows = {row.room: row for row in rows}

    def room_of(self, path: str) -> Optional[Row]:
        """The row of a path such as weft/doctor/rules/x.h; a sub-room goes before its parent."""
        parts = path.split("/")[1:-1]
        for length in range(len(parts), 0, -1):
            row = self.rows.get("/".join(parts[:length]))
            if row is not None:
                return row
        return None

    def by_target(self, target: str) -> Optional[Row]:
        """The row of a CMake target: doctor_rules is doctor/rules, and checkpoint_format is a part of checkpoint."""
        names = {row.room.replace("/", "_"): row for row in self.rows.values()}
        fitting = [name for name in names if target == name or target.startswith(name + "_")]
        return names[max(fitting, key=len)] if fitting else None


class Include(NamedTuple):
    file: str
    line: int
    path: str
    quoted: bool


class Offence(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def read_table(path: Path) -> Table:
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 3 or cells[1] not in ("yes", "no"):
            raise ValueError(f"{path}:{number}: expected 'room | yes or no | rooms', found: {line}")
        rows.append(Row(cells[0], cells[1] == "yes", tuple(cells[2].split())))
    known = {row.room for row in rows} | {"*"}
    for row in rows:
        for name in row.includes:
            if name not in known:
                raise ValueError(f"{path}: the row of {row.room} names {name}, which has no row")
    return Table(rows)


def blank(text: str) -> str:
    return "\n" * text.count("\n")


def without_comments(text: str) -> str:
    """The text with comments and raw strings emptied; line numbers stay."""
    return LEXEME.sub(lambda m: blank(m.group()) if m.group("comment") or m.group("raw") else m.group(), text)


def includes_of(root: Path, file: Path) -> Iterator[Include]:
    text = without_comments(file.read_text(encoding="utf-8"))
    name = file.relative_to(root).as_posix()
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        quoted = match.group("quoted")
        yield Include(name, line, quoted or match.group("angled"), quoted is not None)


def sources(root: Path) -> list[Path]:
    found = (path for top in OUR_ROOTS for path in (root / top).rglob("*"))
    return sorted(path for path in found if path.suffix in SOURCE_ENDINGS and path.is_file())


def is_impl(path: str) -> bool:
    return path.endswith("_impl.h")


def is_ours(include: Include) -> bool:
    return include.path.startswith(OUR_ROOTS)


def why_not_from_room(table: Table, row: Row, include: Include) -> Optional[str]:
    path = include.path
    if path.startswith(TORCH_ROOTS):
        return None if row.torch else f"room {row.room} is torch-free and may not include {path}"
    if path.startswith("tests/"):
        allowed = path.startswith("tests/support/") and include.file.endswith("_test.cpp")
        return None if allowed else f"room {row.room} may not include {path} (only *_test.cpp may, from tests/support/)"
    if path.startswith("examples/"):
        return None if row.allows("*") else f"room {row.room} may not include {path} (its row allows: {row.described()})"
    return why_not_room_to_room(table, row, path) if path.startswith("weft/") else None


def why_not_room_to_room(table: Table, row: Row, path: str) -> Optional[str]:
    target = table.room_of(path)
    if target is None:
        return f"room {row.room} may not include {path} (it lies in no room of tools/layers.txt)"
    if not row.allows(target.room):
        return f"room {row.room} may not include {path} (its row allows: {row.described()})"
    if is_impl(path) and target.room != row.room:
        return f"room {row.room} may not include {path} (*_impl.h is private to room {target.room})"
    return None


def why_not_from_outside(who: str, roots: tuple[str, ...], include: Include) -> Optional[str]:
    path = include.path
    if not is_ours(include):
        return None
    if not path.startswith(roots):
        return f"{who} may not include {path} (it may include: {' '.join(roots)})"
    if path.startswith("weft/cli/") and who != "tests":
        return f"{who} may not include {path} (the command line is nobody's library)"
    if is_impl(path):
        return f"{who} may not include {path} (*_impl.h is private to its room)"
    return None


def why_not(table: Table, include: Include) -> Optional[str]:
    """The offence of one include, or None."""
    if include.quoted and not is_ours(include):
        roots = ", ".join(OUR_ROOTS)
        return f'"{include.path}" does not start with one of {roots} (others\' headers go in <>)'
    top = include.file.split("/")[0]
    if top == "tests":
        return why_not_from_outside("tests", OUR_ROOTS, include)
    if top == "examples":
        support = ("tests/support/",) if include.file.endswith("_test.cpp") else ()
        return why_not_from_outside("examples", ("weft/", "examples/") + support, include)
    row = table.room_of(include.file)
    if row is not None:
        return why_not_from_room(table, row, include)
    return why_not_from_outside("the public surface", ("weft/",), include)


def files_without_room(root: Path, table: Table, files: list[Path]) -> Iterator[Offence]:
    for file in files:
        name = file.relative_to(root).as_posix()
        # Files right under weft/ are the public surface; every other one lives in a room.
        if name.startswith("weft/") and name.count("/") > 1 and table.room_of(name) is None:
            yield Offence(name, 1, f"{Path(name).parent.as_posix()} is not a room of tools/layers.txt")


def why_not_link(table: Table, row: Row, target: str) -> Optional[str]:
    if target == "torch":
        return None if row.torch else f"room {row.room} is torch-free and may not link weft::torch"
    other = table.by_target(target)
    if (other is not None and row.allows(other.room)) or row.allows("*"):
        return None
    return f"room {row.room} may not link weft::{target} (its row allows: {row.described()})"


def row_of_call(table: Table, file: str, call: re.Match[str]) -> Optional[Row]:
    return table.by_target(call["name"]) if call["command"] == "weft_room" else table.room_of(file)


def offences_of_call(table: Table, file: str, text: str, call: re.Match[str]) -> Iterator[Offence]:
    def at(position: int, why: str) -> Offence:
        return Offence(file, text.count("\n", 0, position) + 1, why)

    row = row_of_call(table, file, call)
    if row is None:
        if call["command"] == "weft_room":
            yield at(call.start(), f"weft_room({call['name']}) has no row in tools/layers.txt")
        return
    start = call.start("rest")
    torch = re.search(r"\bTORCH\b", call["rest"])
    if torch and not row.torch:
        yield at(start + torch.start(), f"room {row.room} is torch-free and may not say TORCH")
    for link in CMAKE_LINK.finditer(call["rest"]):
        why = why_not_link(table, row, link.group(1))
        if why:
            yield at(start + link.start(), why)


def cmake_offences(root: Path, table: Table) -> Iterator[Offence]:
    for path in sorted((root / "weft").rglob("CMakeLists.txt")):
        text = CMAKE_COMMENT.sub("", path.read_text(encoding="utf-8"))
        for call in CMAKE_CALL.finditer(text):
            yield from offences_of_call(table, path.relative_to(root).as_posix(), text, call)


def node(table: Table, path: str) -> str:
    row = table.room_of(path) if path.startswith("weft/") else None
    return row.room if row else path.split("/")[0]


def edges(table: Table, includes: list[Include]) -> Counter[tuple[str, str]]:
    """How many includes go from room to room, tests left out: they say how a room is tested, not what it needs."""
    product = (i for i in includes if not i.file.endswith("_test.cpp") and not i.file.startswith("tests/"))
    pairs = ((node(table, i.file), node(table, i.path)) for i in product if is_ours(i))
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def print_graph(graph: Counter[tuple[str, str]], style: str) -> None:
    if style == "text":
        for (source, target), count in sorted(graph.items()):
            print(f"{source} -> {target} ({count})")
        return
    print("digraph weft {\n  rankdir=BT;")
    for (source, target), count in sorted(graph.items()):
        print(f'  "{source}" -> "{target}" [label="{count}"];')
    print("}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare includes and links with tools/layers.txt")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the tree to check")
    parser.add_argument("--graph", nargs="?", const="text", choices=("text", "dot"), help="print who includes whom")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    root: Path = options.root.resolve()
    try:
        table = read_table(root / "tools/layers.txt")
    except (OSError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 1
    files = sources(root)
    includes = [include for file in files for include in includes_of(root, file)]
    if options.graph:
        print_graph(edges(table, includes), options.graph)
        return 0
    offences = list(files_without_room(root, table, files)) + list(cmake_offences(root, table))
    offences += [Offence(i.file, i.line, why) for i in includes if (why := why_not(table, i))]
    for offence in sorted(offences):
        print(offence)
    if not offences:
        print(f"layers: {len(files)} files, {len(includes)} includes, all within tools/layers.txt")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
