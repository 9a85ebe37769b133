"""tools/demo, and what the Makefile hands to the tools: with stand-ins for set-up, build and weft."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_tree import REPO, run
from stand_ins import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, "demo")
    made.stand_in("setup", "mkdir -p build && echo WEFT_TORCH_ROOT=/the/torch >build/setup.env", folder="tools")
    made.stand_in("build", 'echo "build $* for $WEFT_TORCH_ROOT"', folder="tools")
    made.stand_in("weft", 'echo "weft $*"', folder="build/release/bin")
    return made


def test_it_builds_says_when_training_starts_and_trains(place):
    outcome = place.run("demo", "release", "--jobs", "3")
    assert outcome.code == 0
    assert outcome.lines[0] == "build release --jobs 3 for /the/torch"
    assert re.fullmatch(r"demo: training starts, \d\.\ds after the command", outcome.lines[1])
    assert outcome.lines[2:] == ["weft train -n 2 --name demo"]


def test_minutes_are_told_as_minutes(place):
    # Bash's clock, put forward: the script reads it twice.
    text = place.text("tools/demo").replace("tenths=$(((${EPOCHREALTIME", "tenths=$(((2185000000 + ${EPOCHREALTIME")
    place.stand_in("demo", "", folder="tools")
    (place.root / "tools/demo").write_text(text)
    assert "demo: training starts, 36m25s after the command" in place.run("demo").lines


@pytest.mark.parametrize("tool", ["setup", "build"])
@pytest.mark.parametrize("code", [1, 130])
def test_what_ended_before_ends_it_with_the_same_code(place, tool, code):
    place.stand_in(tool, f"exit {code}", folder="tools")
    outcome = place.run("demo")
    assert outcome.code == code
    assert not any("training starts" in line for line in outcome.lines)


def commands_of(*words: str) -> list[str]:
    outcome = run("env", "-u", "JOBS", "-u", "PRESET", "-u", "MAKEFLAGS", "make", "-n", "-C", REPO, "--no-print-directory", *words)
    assert outcome.code == 0, outcome.lines
    return outcome.lines


@pytest.mark.parametrize("target", ["all", "demo"])
def test_the_product_asks_for_no_tests(target):
    assert not any("--test" in line for line in commands_of(target))


def test_tests_are_asked_for_by_name():
    assert [line.split("&& ")[-1].rstrip() for line in commands_of("test")] == ["tools/setup --test", "tools/build release --tests", "tools/test release"]


def test_a_number_of_jobs_goes_to_the_build():
    assert commands_of("JOBS=3")[-1].endswith("tools/build release --jobs 3")
    assert commands_of("demo", "JOBS=3") == ["tools/demo release --jobs 3"]
    assert not any("--jobs" in line for line in commands_of("all"))
