#!/usr/bin/env python3
"""Finds tests that would never run: in no target, under no pytest folder, badly named, or switched off without a word.

    tools/check_tests.py BUILD_DIR [--root DIR]

BUILD_DIR is a configured build with every room in it; CMake writes test_sources.txt there, one path per line.
Exit 0 and one line when every test runs; exit 1 and one line per offence otherwise.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from our_files import our_files

CPP_ENDINGS = {".h", ".cpp", ".cu"}
TEST_HELPER = re.compile(r"^tests/support/|/test_\w+_impl\.h$|_test_impl\.h$")  # shared by the tests of a room
GTEST_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]g(?:test|mock)/", re.MULTILINE)
PYTHON_CASE = re.compile(r"^def test_", re.MULTILINE)
CPP_CASE = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(?P<suite>\w+),\s*(?P<case>\w+)\)")
# A skip says why in its own statement: GTEST_SKIP() << "needs two GPUs";
GTEST_SKIP = re.compile(r"\bGTEST_SKIP\(\)(?P<rest>[^;]*);")
PYTHON_SKIP = re.compile(r"^[^#\n]*?\bpytest\.(?:mark\.)?(?:skip|skipif|xfail)\b(?P<rest>\([^\n]*)?$", re.MULTILINE)
TESTPATHS = re.compile(r"^testpaths\s*=\s*\[(?P<paths>[^\]]*)\]", re.MULTILINE)


class Offence(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def built_sources(build: Path) -> set[str]:
    return set((build / "test_sources.txt").read_text(encoding="utf-8").split())


def testpaths(root: Path) -> list[str]:
    """pytest's testpaths; a regular expression, because tomllib came with Python 3.11."""
    match = TESTPATHS.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    return re.findall(r"[\"']([^\"']+)[\"']", match["paths"]) if match else []


def line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def misnamed_cpp(name: str, text: str) -> Iterator[Offence]:
    include = GTEST_INCLUDE.search(text)
    if include and not name.endswith("_test.cpp") and not TEST_HELPER.search(name):
        yield Offence(name, line_at(text, include.start()), "includes GoogleTest and is not named *_test.cpp")


def misnamed_python(name: str, text: str) -> Iterator[Offence]:
    case = PYTHON_CASE.search(text)
    if case and not name.endswith("_test.py"):
        yield Offence(name, line_at(text, case.start()), "has a test_ function and is not named *_test.py")


def unregistered(name: str, built: set[str], paths: list[str]) -> Iterator[Offence]:
    if name.endswith("_test.cpp") and name not in built:
        yield Offence(name, 1, "no target builds this test; list it in its room's CMakeLists.txt")
    if name.endswith("_test.py") and not any(name.startswith(path.rstrip("/") + "/") for path in paths):
        yield Offence(name, 1, f"pytest does not look here (testpaths: {' '.join(paths) or 'none'})")


def has_reason(rest: Optional[str]) -> bool:
    """Whether a string of at least one character follows, or a variable: << why, or reason=why."""
    return bool(re.search(r"\"[^\"]+\"|'[^']+'|<<\s*[A-Za-z_]|\breason\b", rest or ""))


def says_why(lines: list[str], number: int) -> bool:
    above = lines[number - 2].strip() if number > 1 else ""
    return "//" in lines[number - 1] or above.startswith("//")


def silent_cpp(name: str, text: str) -> Iterator[Offence]:
    """Skips and disabled cases without a reason. A case that another one runs by its name is disabled on purpose."""
    for skip in GTEST_SKIP.finditer(text):
        if not has_reason(skip["rest"]):
            yield Offence(name, line_at(text, skip.start()), 'GTEST_SKIP without a reason: add << "why"')
    lines = text.splitlines()
    for case in CPP_CASE.finditer(text):
        name_of_case = f"{case['suite']}.{case['case']}"
        number = line_at(text, case.start())
        if "DISABLED_" in name_of_case and not says_why(lines, number) and name_of_case not in text:
            yield Offence(name, number, f"{name_of_case} without a reason: a // comment on its line or above it")


def silent_python(name: str, text: str) -> Iterator[Offence]:
    for skip in PYTHON_SKIP.finditer(text):
        # A call that goes on below holds its reason there.
        goes_on = (skip["rest"] or "").rstrip().endswith(("(", ","))
        if not goes_on and not has_reason(skip["rest"]):
            yield Offence(name, line_at(text, skip.start()), "a skipped test without a reason")


def offences_in(root: Path, name: str, built: set[str], paths: list[str]) -> Iterator[Offence]:
    yield from unregistered(name, built, paths)
    ending = Path(name).suffix
    if ending in CPP_ENDINGS:
        text = (root / name).read_text(encoding="utf-8")
        yield from misnamed_cpp(name, text)
        yield from silent_cpp(name, text)
    elif ending == ".py":
        text = (root / name).read_text(encoding="utf-8")
        yield from misnamed_python(name, text)
        yield from silent_python(name, text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="find tests that would never run")
    parser.add_argument("build", type=Path, metavar="BUILD_DIR", help="a configured build folder")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the tree to check")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    root: Path = options.root.resolve()
    try:
        built, paths = built_sources(options.build), testpaths(root)
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror} (configure the build first: cmake --preset release)")
        return 1
    names = our_files(root)
    offences = [offence for name in names for offence in offences_in(root, name, built, paths)]
    for offence in offences:
        print(offence)
    if not offences:
        tests = sum(name.endswith(("_test.cpp", "_test.py")) for name in names)
        print(f"tests: {tests} files, each one built or collected")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
