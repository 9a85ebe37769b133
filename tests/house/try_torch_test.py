"""tools/try_torch with a compiler and programs that are made up: what it calls equal, what it does not, and what it says."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_tree import REPO, Outcome, run

# Builds what lies in the folder already; a folder with a file `broken` does not compile.
CMAKE = """
[ "$1" = --build ] || exit 0
mkdir -p "$2/bin"
[ ! -f "$2/../broken" ] || { echo "weft/engine/engine.cpp:7: error: no such type"; exit 1; }
cp "$2/../made" "$2/bin/weft"
"""


class Place:
    def __init__(self, root: Path):
        self.root = root
        (root / "tools").mkdir()
        (root / "bin").mkdir()
        shutil.copy(REPO / "tools/try_torch", root / "tools/try_torch")
        self.script(root / "bin/cmake", CMAKE)
        self.program(root / "build/release/bin/weft", ["aa", "bb", "cc"])

    def script(self, path: Path, body: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def program(self, path: Path, bits: list[str], **said: Any) -> None:
        version = json.dumps({"torch": "2.13.0", "cuda": True, "nccl": True, **said})
        training = json.dumps({"loss_bits": bits})
        self.script(path, f"case $1 in version) echo '{version}' ;; train) echo '{training}' ;; esac")

    def torch(self, version: str, bits: list[str], **said: Any) -> Path:
        """An environment that is there already, and the weft that will be built with it."""
        folder = self.root / f"build/torch-{version}"
        torch = folder / ".venv/lib/python3.11/site-packages/torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib/libtorch.so").touch()
        (torch / "version.py").write_text(f"__version__ = '{version}+cu132'\n")
        self.program(folder / "made", bits, **said)
        return folder

    def run(self, *words: str) -> Outcome:
        return run("env", f"PATH={self.root}/bin:{os.environ['PATH']}", self.root / "tools/try_torch", *words)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_equal_losses_are_said_to_be_equal(place):
    place.torch("2.14.1", ["aa", "bb", "cc"], nccl=False, cuda=False)
    place.torch("2.15.0", ["aa", "bb", "cc"])
    outcome = place.run("2.14.1", "2.15.0")
    assert outcome.code == 0, outcome.lines
    assert outcome.lines[-2].split() == ["2.14.1", "no", "no", "0", "the", "same", "losses"]
    assert outcome.lines[-1].split() == ["2.15.0", "yes", "yes", "0", "the", "same", "losses"]


def test_other_losses_are_named_with_their_step(place):
    place.torch("2.15.0", ["aa", "b0", "cc"])
    outcome = place.run("2.15.0")
    assert outcome.code == 1 and outcome.lines[-1].endswith("other losses from step 2 on: b0, not bb")


def test_losses_that_are_missing_are_other_losses(place):
    place.torch("2.15.0", [])
    outcome = place.run("2.15.0")
    assert outcome.code == 1 and "other losses from step 1 on: none, not aa" in outcome.lines[-1]


def test_nccl_that_was_left_out_fails(place):
    place.torch("2.15.0", ["aa", "bb", "cc"], nccl=False, nccl_why="no header")
    outcome = place.run("2.15.0")
    assert outcome.code == 1 and outcome.lines[-1].endswith("nccl was left out: no header")


def test_a_build_that_fails_shows_its_last_lines_and_the_others_go_on(place):
    (place.torch("2.14.1", ["aa", "bb", "cc"]) / "broken").touch()
    place.torch("2.15.0", ["aa", "bb", "cc"])
    outcome = place.run("2.14.1", "2.15.0")
    assert outcome.code == 1
    assert "    weft/engine/engine.cpp:7: error: no such type" in outcome.lines
    assert outcome.lines[-2].endswith("building failed") and outcome.lines[-1].endswith("the same losses")


def test_without_a_build_to_compare_with_it_says_make(place):
    outcome = place.run("2.15.0", "--reference", "build/other")
    assert outcome.code == 2 and outcome.lines[0] == "error: there is no build to compare with"
    assert "  do:    make, or --reference FOLDER" in outcome.lines
