#!/usr/bin/env python3
"""Prints what the environment of the interpreter that runs this lacks, one name a line.

    venv_lacks.py NAME[==VERSION]...    the distributions that are not installed
    venv_lacks.py --whole NAME...       those that are installed but not whole: a file of their list is missing or cut short
    venv_lacks.py --all                 all that are installed but not whole

An installer that was stopped leaves a distribution without its list of files, which it writes last. Compiled files
(.pyc) do not count: Python makes and unmakes them as it likes.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions


def is_lacking(wanted: str) -> bool:
    name, _, version = wanted.partition("==")
    try:
        return distribution(name).version != (version or distribution(name).version)
    except PackageNotFoundError:
        return True


def is_whole(found: Distribution) -> bool:
    if found.read_text("RECORD") is None:
        return False
    return all(has_size(str(found.locate_file(file)), file.size) for file in found.files or () if file.suffix != ".pyc")


def has_size(path: str, size: int | None) -> bool:
    try:
        return os.stat(path).st_size == size or size is None
    except OSError:
        return False


def installed(names: list[str]) -> list[Distribution]:
    return [distribution(name) for name in names if not is_lacking(name)]


# Debian's packages bring no list of files; with --system-site-packages they are seen here, and are not ours to judge.
def is_ours(found: Distribution) -> bool:
    return str(found.locate_file("")).startswith(sys.prefix)


def main(words: list[str]) -> None:
    if words[:1] in (["--all"], ["--whole"]):
        found = distributions() if words[0] == "--all" else installed(words[1:])
        lacking = sorted({each.metadata["Name"] or "?" for each in found if is_ours(each) and not is_whole(each)})
    else:
        lacking = [name for name in words if is_lacking(name)]
    print("".join(f"{name}\n" for name in lacking), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
