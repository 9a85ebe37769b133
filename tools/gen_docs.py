#!/usr/bin/env python3
"""Writes docs/environment.md from tools/environment.tsv, and holds the table against the sources.

    tools/gen_docs.py [--check] [--root DIR]

The table describes each environment variable once: name, who reads it, values, default, meaning. The sources say which
there are: a variable that is read or set and has no row is an offence, and so is a row whose variable nobody reads any
more. Exit 0 when all agrees, and the page is written; exit 1 and one line per offence otherwise. --check writes nothing
and also compares the page, printing the difference.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from check_layers import without_comments
from our_files import our_files

TABLE = "tools/environment.tsv"
PAGE = "docs/environment.md"
COLUMNS = ["name", "who", "values", "default", "meaning"]
# The table's words for who reads a variable, in the order of the page.
READERS = {
    "weft": ("weft and weft-worker", "What the product reads when it runs."),
    "make": ("make and tools/", "What set-up and build read; make hands them on to the tools."),
    "tests": ("The tests", "What ctest and pytest read. Those set by the harness are not for people."),
}

WATCHED_FOLDERS = ("weft/", "examples/", "tests/", "tools/", "cmake/", "benchmarks/", ".ci/")
# These two name variables without reading them.
NOT_READ = {"tools/gen_docs.py", "tests/house/docs_test.py"}
# Names that count wherever they stand as a text of their own: some are read through a helper, environment("TERM").
OURS = r"WEFT_[A-Z][A-Z0-9_]*|GLIBC_TUNABLES|NO_COLOR|COLUMNS|TERM|LC_ALL|LC_CTYPE|LANG|PATH"
READ_OR_SET = re.compile(
    r"\b(?P<call>(?:secure_)?getenv|lookup|(?:un)?setenv|putenv)\(\s*\"(?P<called>[A-Za-z_]\w*)"
    r"|\bos\.environ(?:\.(?:get|pop|setdefault)\(|\[)\s*[\"'](?P<environ>\w+)"
    rf"|[\"'](?P<literal>{OURS})(?:=[^\"']*)?[\"']"
)
# ${X:-default} and its kin (a name in small letters is the script's own); $X and $$X for names of ours; NAME ?= of the Makefile,
# which the environment overrides.
SHELL = re.compile(
    rf"\$\{{(?P<default>[A-Z]\w*):?[-+?=]|\$\{{?(?P<plain>{OURS})\b|^(?P<make>[A-Z]\w*)\s*\?=", re.MULTILINE
)
TEST_FILE = re.compile(r"_test\.(?:cpp|py)$")
CMAKE = re.compile(r"\$ENV\{(?P<env>\w+)\}|\bENVIRONMENT \"(?P<set>\w+)=")


class Row(NamedTuple):
    name: str
    who: str
    values: str
    default: str
    meaning: str


def read_table(root: Path) -> list[Row]:
    lines = (root / TABLE).read_text(encoding="utf-8").splitlines()
    if not lines or lines[0].split("\t") != COLUMNS:
        raise ValueError(f"{TABLE}:1: the columns must be {', '.join(COLUMNS)}, with tabs between them")
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS) or not all(cell.strip() for cell in cells):
            raise ValueError(f"{TABLE}:{number}: expected {len(COLUMNS)} cells with something in each")
        if cells[1] not in READERS:
            raise ValueError(f"{TABLE}:{number}: '{cells[1]}' is not one of {', '.join(READERS)}")
        if any(row.name == cells[0] for row in rows):
            raise ValueError(f"{TABLE}:{number}: {cells[0]} has a row already")
        rows.append(Row(*cells))
    return rows


def patterns_for(name: str, text: str) -> list[re.Pattern[str]]:
    if name.endswith((".h", ".cpp", ".cu", ".py")) or re.match(r"#!.*\bpython", text):
        return [READ_OR_SET]
    if name.endswith((".cmake", "CMakeLists.txt", ".in")):
        return [CMAKE]
    return [SHELL] if name == "Makefile" or name.endswith(".sh") or text.startswith("#!") else []


def names_in(name: str, text: str) -> set[str]:
    """The variables a file reads or sets. What a test makes up, set and read in one file, is no variable of ours."""
    reads: set[str] = set()
    others: set[str] = set()
    for pattern in patterns_for(name, text):
        for match in pattern.finditer(text):
            groups = {key: value for key, value in match.groupdict().items() if value}
            call = groups.pop("call", "")
            is_read = call.endswith(("getenv", "lookup")) or "environ" in groups
            (reads if is_read else others).update(groups.values())
    return reads - others if TEST_FILE.search(name) else reads | others


def places(root: Path) -> dict[str, list[str]]:
    """Each variable, and the files it appears in."""
    found: dict[str, list[str]] = {}
    for name in our_files(root):
        if name in NOT_READ or not (name == "Makefile" or name.startswith(WATCHED_FOLDERS)):
            continue
        text = (root / name).read_text(encoding="utf-8", errors="replace")
        if name.endswith((".h", ".cpp", ".cu")):
            text = without_comments(text)
        for variable in sorted(names_in(name, text)):
            found.setdefault(variable, []).append(name)
    return found


def offences(rows: list[Row], found: dict[str, list[str]]) -> list[str]:
    described = {row.name for row in rows}
    out = [f"{found[name][0]}: {name} has no row in {TABLE}" for name in sorted(set(found) - described)]
    return out + [f"{TABLE}: {name} is read nowhere; take its row out" for name in sorted(described - set(found))]


def wrapped(text: str, bullet: str = "") -> list[str]:
    indent = " " * len(bullet)
    return textwrap.wrap(
        text, 118, initial_indent=bullet, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def section(row: Row, files: list[str]) -> list[str]:
    # Where it is read; a test that only clears it says nothing about it.
    of_reader = [file for file in files if file.startswith("tests/") == (row.who == "tests")]
    shown = [file for file in of_reader if not TEST_FILE.search(file)]
    where = ", ".join(f"`{file}`" for file in shown or files)
    return [
        f"### `{row.name}`",
        "",
        *wrapped(row.meaning),
        "",
        *wrapped(f"Values: {row.values}. Default: {row.default}.", "- "),
        *wrapped(f"Named in {where}.", "- "),
        "",
    ]


def page(rows: list[Row], found: dict[str, list[str]]) -> str:
    lines = [
        f"<!-- Generated by tools/gen_docs.py from {TABLE}; change the table and run it again. -->",
        "# Environment variables",
        "",
        "Every environment variable that weft, its tools and its tests read. What a run does is said by its flags; a",
        "variable is for what belongs to a machine or a terminal. libtorch, CUDA and the compilers read more of their",
        "own. The number of CPU threads is not one of those: `weft train` sets it itself, from `--threads`.",
        "",
    ]
    for who, (title, about) in READERS.items():
        lines += [f"## {title}", "", about, ""]
        for row in rows:
            if row.who == who:
                lines += section(row, found.get(row.name, []))
    return "\n".join(lines).rstrip() + "\n"


def difference(root: Path, wanted: str) -> list[str]:
    path = root / PAGE
    there = path.read_text(encoding="utf-8") if path.is_file() else ""
    if there == wanted:
        return []
    names = (PAGE, "what tools/gen_docs.py writes")
    lines = difflib.unified_diff(there.splitlines(), wanted.splitlines(), *names, lineterm="")
    return [f"{PAGE} is out of date: run tools/gen_docs.py", *lines]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"write {PAGE} from {TABLE}")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 with the difference")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the tree to read")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    root: Path = options.root.resolve()
    try:
        rows = read_table(root)
    except (OSError, ValueError) as problem:
        print(problem)
        return 1
    found = places(root)
    wrong = offences(rows, found)
    if options.check:
        wrong += difference(root, page(rows, found))
    elif not wrong:
        (root / PAGE).parent.mkdir(parents=True, exist_ok=True)
        (root / PAGE).write_text(page(rows, found), encoding="utf-8")
    for line in wrong:
        print(line)
    if not wrong:
        print(f"docs: {len(rows)} environment variables, all described")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
