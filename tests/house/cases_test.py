"""tools/cases: the list of a made-up tree, and what compare says of two lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small_tree import REPO, Outcome, Tree, run

LISTING = r"""printf 'Aio.\n  Reads\n  DISABLED_Hangs\nAll/Sizes.\n  Fit/0  # GetParam() = 1\n'
[ -z "$WEFT_TEST_ALL" ] || printf '  Fit/1  # GetParam() = 2\n'"""
OLD = ["ci\trelease\tbase_test\tAio.Reads", "ci\trelease\tbase_test\tAio.Writes", "ci\ttsan\tbase_test\tText.Cuts", "nightly\trelease\tengine_test\tAll.Big",
       "ci\tpython\ttests/cli/run_test.py\ttest_help"]


def cases(*words: object) -> Outcome:
    return run("env", f"WEFT_PYTHON={sys.executable}", sys.executable, "-B", REPO / "tools/cases", *words)


@pytest.fixture
def lists(tree: Tree):
    """Two files: what was, and what is."""

    def write(new: list[str], explained: str = "") -> tuple[Path, Path, str, Path]:
        tree.add("old.tsv", "".join(line + "\n" for line in OLD))
        tree.add("new.tsv", "".join(line + "\n" for line in new))
        tree.add("explained.tsv", explained)
        return tree.root / "old.tsv", tree.root / "new.tsv", "--explained", tree.root / "explained.tsv"

    return write


@pytest.fixture
def built(tree: Tree) -> Tree:
    for preset in ("release", "tsan-all"):
        tree.add(f"build/{preset}/bin/base_test", f"#!/bin/sh\n{LISTING}\n")
        (tree.root / f"build/{preset}/bin/base_test").chmod(0o755)
    tree.add("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npython_files = ["*_test.py"]\n')
    tree.add("tests/cli/run_test.py", 'import pytest\n@pytest.mark.parametrize("word", ["a", "b"])\ndef test_help(word): ...\n')
    tree.add("tests/fuzz/yaml_fuzz.cpp", "")
    return tree


def test_a_list_has_every_kind_and_what_nightly_adds(built):
    outcome = cases("list", "--preset", "release", "--build", built.root / "build")
    assert outcome == (0, [
        "ci\trelease\tbase_test\tAio.Reads", "ci\trelease\tbase_test\tAll/Sizes.Fit/0", "nightly\trelease\tbase_test\tAll/Sizes.Fit/1",
        "ci\tpython\ttests/cli/run_test.py\ttest_help[a]", "ci\tpython\ttests/cli/run_test.py\ttest_help[b]",
        "ci\tfuzz\tyaml_fuzz\tLLVMFuzzerTestOneInput"])


def test_a_build_of_nightlys_own_counts_as_nightly(built):
    outcome = cases("list", "--preset", "release", "--build", built.root / "build", "--nightly", f"tsan={built.root}/build/tsan-all")
    assert "nightly\ttsan\tbase_test\tAio.Reads" in outcome.lines


def test_a_tree_without_tests_is_no_empty_list(built):
    outcome = cases("list", "--preset", "asan", "--build", built.root / "build")
    assert outcome.code == 1 and "bin has no tests" in outcome.lines[0]


def test_equal_lists_pass(lists):
    outcome = cases("compare", *lists(OLD))
    assert outcome.code == 0
    assert outcome.lines[-1].split() == ["all", "5", "5", "0", "0", "0"]


def test_a_case_that_is_gone_fails_and_is_named(lists):
    outcome = cases("compare", *lists(OLD[:1] + OLD[2:]))
    assert outcome.code == 1
    assert "gone: release base_test Aio.Writes" in outcome.lines
    assert outcome.lines[-1].startswith("error: 1 cases are gone from CI and nightly")


def test_a_case_that_is_gone_from_nightly_fails_too(lists):
    assert cases("compare", *lists([line for line in OLD if not line.startswith("nightly")])).code == 1


def test_what_moved_to_nightly_is_counted_and_is_not_gone(lists):
    outcome = cases("compare", *lists([line.replace("ci\ttsan", "nightly\ttsan") for line in OLD]))
    assert outcome.code == 0
    assert "moved from CI to nightly: tsan base_test Text.Cuts" in outcome.lines


def test_a_reason_explains_what_is_gone(lists):
    outcome = cases("compare", *lists([line for line in OLD if "tsan" not in line], "# why\ntsan\t*\tText.*\tone thread\n"))
    assert outcome.code == 0
    assert "gone: tsan base_test Text.Cuts (one thread)" in outcome.lines


def test_a_reason_for_nothing_is_told(lists):
    outcome = cases("compare", *lists(OLD, "tsan\t*\tNothing.*\tone thread\n"))
    assert outcome.code == 0 and "a reason that explains nothing: tsan * Nothing.* (one thread)" in outcome.lines


def test_the_result_to_keep_has_counts_and_reasons(lists, tmp_path):
    given = lists([line for line in OLD if "tsan" not in line] + ["ci\trelease\tbase_test\tAio.Syncs"], "tsan\t*\tText.*\tone thread\n")
    assert cases("compare", *given, "--markdown", tmp_path / "kept.md", "--names", "aaa", "bbb").code == 0
    text = (tmp_path / "kept.md").read_text()
    assert "# Test cases of aaa and of bbb" in text
    assert "| release | `base_test` | 2 | 3 | 0 | 1 | 0 |" in text
    assert "| python | `tests/cli` | 1 | 1 | 0 | 0 | 0 |" in text
    assert "| tsan | 1 | one thread |" in text and "Aio.Syncs" not in text
