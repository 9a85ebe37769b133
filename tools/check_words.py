#!/usr/bin/env python3
"""Finds text that belongs to one machine or one moment and not to the project.

    tools/check_words.py [--root DIR]

Reads every text file that git tracks or would track. Exit 0 and one line when all is clean; exit 1 and one line per
offence otherwise. This file holds the patterns, so it is the one file not read.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

from our_files import our_files


class Pattern(NamedTuple):
    regex: str
    reason: str


# A path counts only where it begins: ${root}/ and docs/home/x are no absolute paths.
PATTERNS = (
    Pattern(r"(?<![\w.)}\-])/home/\w", "a home folder exists on one machine only"),
    Pattern(r"(?<![\w.)}\-])/root/", "root's home folder exists on one machine only"),
    Pattern(r"(?<![\w.)}\-])/Users/\w", "a home folder exists on one machine only"),
    Pattern(r"^(?:<{7}|\|{7}|>{7}) ", "a merge left its marker behind"),
)
COMPILED = tuple((re.compile(pattern.regex), pattern.reason) for pattern in PATTERNS)
EXEMPT = "tools/check_words.py"


class Offence(NamedTuple):
    file: str
    line: int
    found: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: '{self.found}': {self.reason}"


def text_of(path: Path) -> str:
    """The file's text, or nothing for a binary one."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", errors="replace")


def offences_in(name: str, text: str) -> Iterator[Offence]:
    for number, line in enumerate(text.splitlines(), 1):
        for regex, reason in COMPILED:
            match = regex.search(line)
            if match:
                yield Offence(name, number, match.group().strip(), reason)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="find text that belongs to one machine or one moment")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the tree to check")
    return parser.parse_args()


def main() -> int:
    root: Path = arguments().root.resolve()
    names = [name for name in our_files(root) if name != EXEMPT]
    offences = [offence for name in names for offence in offences_in(name, text_of(root / name))]
    for offence in offences:
        print(offence)
    if not offences:
        print(f"words: {len(names)} files, nothing that belongs to one machine")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
