"""cmake/WeftListSuites.cmake: ctest has one test for each suite of a binary. The binaries here are small scripts."""

from __future__ import annotations

import json
import os
import time

import pytest
from small_tree import REPO, Outcome, Tree, run

LISTING = """Aio.
  Reads
  DISABLED_Hangs
Typed/0.  # TypeParam = float
  Adds
All/Sizes.
  Fit/0  # GetParam() = [1; 2]
  Fit/1  # GetParam() = "a;]b #"
Off.
  DISABLED_Hangs
"""
CTEST = """include({repo}/cmake/WeftListSuites.cmake)
weft_add_suites(fake_test {root}/fake_test 180 60 {root}/suites ${{CMAKE_CURRENT_LIST_FILE}})
"""


def binary(tree: Tree, listing: str, run_line: str = 'echo "deadline $WEFT_TEST_DEADLINE_S"') -> None:
    tree.add("fake_test", f"#!/bin/sh\ncase $1 in --gtest_list_tests) cat <<'END'\n{listing}END\n;; *) {run_line} ;; esac\n")
    (tree.root / "fake_test").chmod(0o755)


@pytest.fixture
def built(tree: Tree) -> Tree:
    (tree.root / "suites").mkdir()
    tree.add("CTestTestfile.cmake", CTEST.format(repo=REPO, root=tree.root))
    # Older than any list: files that are made within one tick of the clock would be listed twice.
    os.utime(tree.root / "CTestTestfile.cmake", (time.time() - 60,) * 2)
    binary(tree, LISTING)
    return tree


def ctest(tree: Tree, *words: str) -> Outcome:
    return run("ctest", "--test-dir", tree.root, *words)


def known_to_ctest(tree: Tree) -> dict[str, dict]:
    outcome = ctest(tree, "--show-only=json-v1")
    tests = json.loads("\n".join(outcome.lines[outcome.lines.index("{"):]))["tests"]
    return {test["name"]: {one["name"]: one["value"] for one in test["properties"]} | {"command": test["command"]} for test in tests}


def test_every_suite_is_a_test_with_typed_and_parameterised_ones(built):
    tests = known_to_ctest(built)
    assert list(tests) == ["fake_test:Aio", "fake_test:Typed/0", "fake_test:All/Sizes", "fake_test:Off"]
    assert tests["fake_test:All/Sizes"]["command"] == [f"{built.root}/fake_test", "--gtest_filter=All/Sizes.*"]
    assert (built.root / "suites/fake_test_cases.txt").read_text().split()[-3:] == ["All/Sizes.Fit/0", "All/Sizes.Fit/1", "Off.DISABLED_Hangs"]


def test_the_limit_lies_above_what_the_watchdog_allows_all_cases(built):
    test = known_to_ctest(built)["fake_test:All/Sizes"]
    assert test["TIMEOUT"] == 2 * 180 + 30
    assert test["ENVIRONMENT"] == ["WEFT_TEST_DEADLINE_S=60"]
    assert test["SKIP_RETURN_CODE"] == 77
    assert test["LABELS"] == ["fake_test"]


def test_a_suite_that_is_switched_off_is_not_started(built):
    assert known_to_ctest(built)["fake_test:Off"]["DISABLED"] is True
    outcome = ctest(built)
    assert outcome.code == 0
    assert any("fake_test:Off (Disabled)" in line for line in outcome.lines)


def test_a_suite_whose_cases_all_skip_is_shown_as_skipped(built):
    binary(built, LISTING, "exit 77")
    outcome = ctest(built, "-R", "Aio")
    assert any("fake_test:Aio" in line and "***Skipped" in line for line in outcome.lines)


def test_it_lists_again_when_the_binary_is_newer_and_only_then(built):
    assert "fake_test:Aio" in known_to_ctest(built)
    age(built, "fake_test", -60)
    binary(built, "Other.\n  Case\n")
    age(built, "fake_test", -60)
    assert "fake_test:Other" not in known_to_ctest(built), "the list is newer than the binary"
    age(built, "fake_test", 60)
    assert list(known_to_ctest(built)) == ["fake_test:Other"]


def age(tree: Tree, name: str, seconds: float) -> None:
    os.utime(tree.root / name, (time.time() + seconds,) * 2)


def test_a_binary_that_cannot_start_is_a_failing_test_that_says_why(built):
    known_to_ctest(built)
    built.add("fake_test", '#!/bin/sh\necho "error while loading shared libraries: libx.so" >&2\nexit 127\n')
    age(built, "fake_test", 60)
    outcome = ctest(built, "--output-on-failure")
    text = "\n".join(outcome.lines)
    assert outcome.code != 0
    assert "fake_test:cannot_list_its_cases" in text and "loading shared libraries: libx.so" in text
    assert f"do: {built.root}/fake_test --gtest_list_tests" in text
    binary(built, LISTING)
    age(built, "fake_test", 60)
    assert ctest(built).code == 0, "nothing of it is kept"


def test_a_binary_that_is_not_there_is_a_failing_test_that_says_what_to_do(built):
    (built.root / "fake_test").unlink()
    outcome = ctest(built, "--output-on-failure")
    assert outcome.code != 0
    assert f"{built.root}/fake_test is not built." in "\n".join(outcome.lines)
    assert any("do: cmake --build" in line and "--target fake_test" in line for line in outcome.lines)
