#!/usr/bin/env python3
"""Says which source files are compiled together, for cmake/WeftBatches.cmake: tools/batches.py [--root DIR] [--size 8]

A file alone spends most of its compile time on the headers it includes; files of one room include much the same, so a
batch of them costs little more than one. Files of a batch share one anonymous namespace, so two that both have, say, a
refuse() there go to different batches, as do one with a Job there and one whose headers declare a Job.
Prints one line per file: path, a space, the batch. What this cannot see (it reads lines, not C++) is in ALONE, with why.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

from our_files import our_files

# A class of the room that holds something private to its file: GCC takes a file of a batch for a header, and warns of it there.
HOLDS_PRIVATE = "subobject-linkage"
ALONE = {
    "weft/comm/c10d/bounded_caller.cpp": HOLDS_PRIVATE,
    "weft/engine/gate.cpp": HOLDS_PRIVATE,
}
FOLDERS = ("weft/", "tests/support/")

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
ALIAS = re.compile(r"^(?:using|namespace) (?:enum )?(?:\w*::)*(\w+)(?: =|;)")
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)")
# A variable's or a function's name is what stands before the first of these; template arguments are taken out first.
VALUE = re.compile(r"(\w+)\s*[(={\[;]")
NOT_A_NAME = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|INSTANTIATE_TEST_SUITE_P|template|using namespace|namespace|requires|extern)\b")


def private_names(path: str, text: str) -> dict[str, str]:
    """The names that only this file knows (in anonymous namespaces, aliases, macros), and what they are: an alias may be
    in two files of a batch where it means the same, all else is the file's own."""
    names = {name: path for name in re.findall(r"^#define (\w+)", text, re.MULTILINE)}
    inside = False
    for line in text.splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif alias := ALIAS.match(line):
            names[alias.group(1)] = f"{line} {inside}"
        elif inside or line.startswith("static "):
            names |= {name: path for name in name_of(line)}
    return names


def name_of(line: str) -> set[str]:
    if not line or line[0] in " }/#)" or NOT_A_NAME.match(line):
        return set()
    if named := TYPE.match(line):
        return {named.group(1)}
    plain = re.sub(r"<[^()]*>", "", line)
    first = VALUE.search(plain)
    return set(re.findall(r"(\w+) = ", plain)) | ({first.group(1)} if first else set())  # int kA = 1, kB = 2;


class Names(NamedTuple):
    """What a file keeps to itself, and what its headers declare."""

    private: dict[str, str]
    declared: set[str]

    def clashes(self, other: Names) -> bool:
        both_private = any(other.private.get(name, meaning) != meaning for name, meaning in self.private.items())
        return both_private or not self.declared.isdisjoint(other.own) or not other.declared.isdisjoint(self.own)

    @property
    def own(self) -> list[str]:
        """Without aliases, which mostly name what a header declares."""
        return [name for name, meaning in self.private.items() if meaning.endswith(".cpp")]

    def __or__(self, other: Names) -> Names:
        return Names(self.private | other.private, self.declared | other.declared)


def batches(files: dict[str, Names], size: int) -> dict[str, int]:
    """A batch for each file of one folder. The hardest to place go first, so that the easy ones fill up their batches."""
    num_clashes = {path: sum(names.clashes(other) for other in files.values()) for path, names in files.items()}
    placed: dict[str, int] = {}
    made: list[tuple[int, Names]] = []  # how many files, their names
    for path in sorted(files, key=lambda path: (-num_clashes[path], path)):
        fits = (number for number, (count, taken) in enumerate(made) if count < size and not files[path].clashes(taken))
        number = next(fits, len(made))
        if number == len(made):
            made.append((0, Names({}, set())))
        placed[path] = number
        made[number] = (made[number][0] + 1, made[number][1] | files[path])
    return placed


class Headers:
    """What a file's own headers declare, with those that they include in turn: a private name of a neighbour may hide it."""

    def __init__(self, root: Path):
        self._root = root
        self._known: dict[str, set[str]] = {}

    def names_in(self, path: str) -> set[str]:
        if path not in self._known:
            self._known[path] = set()  # a circle ends here
            text = (self._root / path).read_text() if (self._root / path).is_file() else ""
            self._known[path] = self.of(text).union(*map(name_of, text.splitlines()))
        return self._known[path]

    def of(self, text: str) -> set[str]:
        return set().union(*map(self.names_in, INCLUDE.findall(text)))


def by_folder(root: Path) -> dict[tuple[str, str], dict[str, Names]]:
    folders: dict[tuple[str, str], dict[str, Names]] = {}
    headers = Headers(root)
    for path in our_files(root):
        if path.endswith(".cpp") and path.startswith(FOLDERS) and path not in ALONE:
            kind = "tests" if path.endswith("_test.cpp") else "files"
            text = (root / path).read_text()
            folders.setdefault((str(Path(path).parent), kind), {})[path] = Names(private_names(path, text), headers.of(text))
    return folders


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--size", type=int, default=8)
    arguments = parser.parse_args()
    for (folder, kind), files in by_folder(arguments.root).items():
        for path, number in sorted(batches(files, arguments.size).items()):
            print(path, f"{folder.replace('/', '_')}_{kind}_{number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
