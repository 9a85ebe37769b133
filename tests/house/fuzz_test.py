"""tools/fuzz with stand-ins for the compiler and the targets: who runs, and what is said of an input that fails."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest
from small_tree import Outcome, Tree, run

GOOD = 'echo "Done 7 runs in 1 second(s)"'
BAD = 'echo "#1 INITED"; echo "ERROR: AddressSanitizer: overflow"; echo "Test unit written to build/asan/crashes/bad/crash-1"; exit 1'


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def place(tree: Tree, repo: Path) -> Tree:
    (tree.root / "tools").mkdir(exist_ok=True)
    shutil.copy(repo / "tools/fuzz", tree.root / "tools/fuzz")
    script(tree.root / "bin/clang++-19", "")
    script(tree.root / "tools/build", 'echo "$*" >calls')
    for name in ("good", "bad"):
        tree.add(f"tests/fuzz/{name}_fuzz.cpp", "\n")
        script(tree.root / f"build/asan/bin/{name}_fuzz", GOOD if name == "good" else BAD)
    return tree


def fuzz(place: Tree, *words: str) -> Outcome:
    return run("env", f"PATH={place.root}/bin:/usr/bin:/bin", place.root / "tools/fuzz", *words)


def test_a_failing_input_is_named_and_the_others_still_run(place):
    outcome = fuzz(place, "3")
    assert outcome.code == 1
    assert "fuzz: good: 7 inputs in 3 s, none failed" in outcome.lines
    assert "ERROR: AddressSanitizer: overflow" in outcome.lines
    crash = "build/asan/crashes/bad/crash-1"
    assert f"fuzz: bad failed on {crash}: build/asan/bin/bad_fuzz {crash} runs it again (log: build/asan/fuzz-bad.log)" in outcome.lines


def test_one_target_alone(place):
    assert fuzz(place, "3", "good") == (0, ["fuzz: good: 7 inputs in 3 s, none failed"])
    assert (place.root / "calls").read_text() == "asan --only good_fuzz\n"


def test_a_target_that_dies_without_an_input_can_be_repeated(place):
    script(place.root / "build/asan/bin/bad_fuzz", "exit 77")
    line = "fuzz: bad failed on an input that was not kept: tools/fuzz 3 bad runs it again (log: build/asan/fuzz-bad.log)"
    assert fuzz(place, "3", "bad") == (1, [line])


def test_a_build_that_fails_says_why(place):
    script(place.root / "tools/build", "echo 'a.cpp:1:1: error: no'; exit 1")
    assert fuzz(place) == (1, ["a.cpp:1:1: error: no"])


@pytest.mark.parametrize("words, why", [(("0",), "'0' is not a number of seconds"), (("3", "new"), "there is no target new (known: bad good)")])
def test_wrong_words_are_refused(place, words, why):
    outcome = fuzz(place, *words)
    assert outcome.code == 2
    assert why in outcome.lines[0]
