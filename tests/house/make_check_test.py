"""tools/check: what it takes for a change, what it leaves out, and that a failure of any part is its own."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from small_tree import Outcome, Tree, run

LAYERS = "base | no |\nlow | no |\nhigh | no | low\nfar | no | high\nall | no | *\n"
ROOMS = ("base", "low", "high", "far", "all")
GIT = ("-c", "user.name=a", "-c", "user.email=a@b.c")


def git(tree: Tree, *words: str) -> None:
    assert run("git", "-C", tree.root, *GIT, *words).code == 0


def stand_in(tree: Tree, name: str, body: str = "") -> None:
    tree.add(name, f'#!/bin/sh\necho "{Path(name).name} $*" >>{tree.root}/build/calls\n{body}\n')
    path = tree.root / name
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def place(tree: Tree, repo: Path) -> Tree:
    tree.add(".gitignore", "/build/\n/bin/\n")
    tree.add("tools/layers.txt", LAYERS)
    for room in ROOMS:
        tree.add(f"weft/{room}/CMakeLists.txt", f"weft_room({room} SOURCES a.cpp LINKS weft::base TESTS a_test.cpp)\n")
        tree.add(f"weft/{room}/a.h", "#pragma once\n")
        tree.add(f"weft/{room}/a.cpp", f'#include "weft/{room}/a.h"\n')
        tree.add(f"build/release/bin/{room}_test", "")
    tree.add("weft/far/b.cpp", '#include "weft/base/a.h"\n')
    tree.add("tests/house/lint_test.py", "")
    for name in ("tools/lint", "tools/build", "tools/test"):
        stand_in(tree, name)
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "all")
    return tree


def check(place: Tree, *options: str) -> Outcome:
    tool = Path(__file__).resolve().parents[2] / "tools/check"
    return run("env", f"PATH={place.root}/bin:/usr/bin:/bin", f"WEFT_PYTHON={place.root}/bin/python", tool, "--root", place.root, *options)


def runs(outcome: Outcome) -> list[str]:
    assert outcome.code == 0, outcome.lines
    return [line.split()[2] for line in outcome.lines if line.startswith("check: runs ")]


def planned(place: Tree, *options: str) -> list[str]:
    return runs(check(place, "--dry-run", *options))


def calls(place: Tree) -> list[str]:
    return (place.root / "build/calls").read_text().splitlines()


# --- What it takes ---------------------------------------------------------------------------------------------------------


def test_a_room_and_those_that_may_include_it(place):
    place.add("weft/low/a.cpp", "int a;\n")
    assert planned(place) == ["low_test", "high_test", "all_test"]


def test_of_the_lowest_room_only_those_that_include_what_changed(place):
    place.add("weft/base/a.cpp", "int a;\n")
    outcome = check(place, "--dry-run")
    assert runs(outcome) == ["base_test", "far_test"]
    assert "check: base lies below every room: of those above it only those that include what changed" in outcome.lines


def test_a_new_file_and_one_that_is_gone_count(place):
    place.add("weft/far/new.h", "#pragma once\n")
    (place.root / "weft/high/a.cpp").unlink()
    assert planned(place)[:2] == ["far_test", "high_test"]


def test_the_base_is_where_the_branch_left(place):
    git(place, "branch", "other")
    place.add("weft/far/a.cpp", "int a;\n")
    git(place, "commit", "-qam", "mine")
    assert check(place) == (0, ["check: nothing changed since HEAD"])
    assert planned(place, "--base", "other") == ["far_test", "all_test"]
    assert check(place, "--base", "nowhere").code == 2


def test_a_tool_has_the_test_of_its_name(place):
    place.add("tools/lint", "#!/bin/sh\n")
    assert planned(place) == ["tests/house/lint_test.py"]


# --- What it leaves out ----------------------------------------------------------------------------------------------------


def test_what_would_take_too_long_is_named(place):
    place.add("weft/low/a.cpp", "int a;\n")
    place.add("build/release/test-times.json", json.dumps({"low_test:A.B": 50, "low_test:A.C": 30, "high_test:A.B": 100, "all_test:A.B": 3}))
    outcome = check(place, "--dry-run", "--seconds", "90")
    assert runs(outcome) == ["low_test", "all_test"]
    assert "check: leaves out high_test (high may include low, 100 s)" in outcome.lines


def test_rooms_above_that_are_not_built_are_named(place):
    place.add("weft/low/a.cpp", "int a;\n")
    (place.root / "build/release/bin/high_test").unlink()
    outcome = check(place, "--dry-run")
    assert runs(outcome) == ["low_test", "all_test"]
    assert "check: leaves out high_test (high may include low; it is not built yet, 10 s)" in outcome.lines


# --- What it runs ----------------------------------------------------------------------------------------------------------


def test_lint_build_and_tests_of_the_change_alone(place):
    place.add("weft/far/a.h", "#pragma once\nint a;\n")
    outcome = check(place)
    assert outcome.code == 0, outcome.lines
    assert calls(place) == [
        "lint --fast --files weft/far/a.h weft/far/a.cpp",
        "build release --only far_test,all_test",
        "test release --only cpp --rooms far_test,all_test",
    ]


def test_python_tests_need_no_build_of_their_own(place):
    stand_in(place, "bin/python")
    place.add("tools/lint", (place.root / "tools/lint").read_text() + "\n")
    assert check(place).code == 0
    assert calls(place) == ["lint --fast --files tools/lint", "python -m pytest -q tests/house/lint_test.py"]


def test_what_setup_found_is_handed_on(place, monkeypatch):
    monkeypatch.delenv("WEFT_TORCH_ROOT", raising=False)  # under `make test` it is there, and goes before
    stand_in(place, "tools/build", 'echo "torch in $WEFT_TORCH_ROOT"')
    place.add("weft/far/a.cpp", "int a;\n")
    place.add("build/setup.env", "WEFT_TORCH_ROOT=/torch\n")
    assert "torch in /torch" in check(place).lines


FAILING = {
    "lint": ("tools/lint", ["lint", "build", "test"], "tools/lint --fast --files weft/far/a.cpp"),
    "build": ("tools/build", ["lint", "build"], "tools/build release --only far_test,all_test"),
    "tests": ("tools/test", ["lint", "build", "test"], "tools/test release --only cpp --rooms far_test,all_test"),
}


@pytest.mark.parametrize("tool, called, again", FAILING.values(), ids=FAILING.keys())
def test_each_part_can_fail_it(place, tool, called, again):
    stand_in(place, tool, "exit 1")
    git(place, "add", ".")
    git(place, "commit", "-qm", "broken", "--allow-empty")
    place.add("weft/far/a.cpp", "int a;\n")
    outcome = check(place)
    assert outcome.code == 1
    assert [call.split()[0] for call in calls(place)] == called
    assert f"check: failed, again: {again}" in outcome.lines
    assert outcome.lines[-1].startswith("check: something failed after ")
