"""tools/check_tests.py finds tests that would never run."""

from __future__ import annotations

import subprocess

import pytest

PYPROJECT = '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npython_files = ["*_test.py"]\n'
# The words under test in two pieces: the checker reads this file too.
PYTEST_SKIP = "pytest." + "skip"
PYTEST_MARK = "@pytest." + "mark.skip"

CLEAN = {
    "pyproject.toml": PYPROJECT,
    "build/test_sources.txt": "weft/base/a_test.cpp\ntests/multirank/m_test.cpp\n",
    "weft/base/a.cpp": "int a();\n",
    "weft/base/a_test.cpp": '#include <gtest/gtest.h>\nTEST(A, B) { GTEST_SKIP() << "needs two GPUs"; }\n',
    "tests/multirank/m_test.cpp": "#include <gtest/gtest.h>\n// Waits for a second host.\nTEST(A, DISABLED_far) {}\n",
    "tests/support/main.cpp": "#include <gtest/gtest.h>\n",
    "tests/cli/help_test.py": f'def test_help():\n    {PYTEST_SKIP}("no terminal")\n',
    "tests/cli/words.py": "def words(): ...\n",
}


@pytest.fixture
def clean(tree):
    for name, text in CLEAN.items():
        tree.add(name, text)
    return tree


def check(tree, tool):
    return tool("check_tests.py", tree.root / "build", "--root", tree.root)


def test_clean_tree_passes_with_one_line(clean, tool):
    assert check(clean, tool) == (0, ["tests: 3 files, each one built or collected"])


OFFENCES = {
    "in no target": ("weft/base/lost_test.cpp", "\n", 1, "no target builds this test"),
    "outside testpaths": ("tools/x_test.py", "\n", 1, "pytest does not look here (testpaths: tests)"),
    "gtest in a file of another name": (
        "weft/base/tests.cpp",
        "\n#include <gtest/gtest.h>\n",
        2,
        "includes GoogleTest and is not named *_test.cpp",
    ),
    "gmock in a header": ("weft/base/fake.h", '#include "gmock/gmock.h"\n', 1, "is not named *_test.cpp"),
    "pytest file of another name": ("tests/cli/test_x.py", "\ndef test_x(): ...\n", 2, "is not named *_test.py"),
    "skip without a reason": ("tests/support/s.cpp", "\nvoid f() { GTEST_SKIP(); }\n", 2, "GTEST_SKIP without a reason"),
    "skip with an empty reason": ("tests/support/s.cpp", 'void f() { GTEST_SKIP() << ""; }\n', 1, "GTEST_SKIP without"),
    "disabled without a reason": (
        "tests/support/s.cpp",
        "int a;\nTEST(A, DISABLED_b) {}\n",
        2,
        "A.DISABLED_b without a reason",
    ),
    "python skip without a reason": ("tests/cli/x_test.py", f"\n{PYTEST_SKIP}()\n", 2, "a skipped test without a reason"),
    "python mark without a reason": ("tests/cli/x_test.py", f"{PYTEST_MARK}\ndef test_x(): ...\n", 1, "without a reason"),
}


@pytest.mark.parametrize("offence", OFFENCES.values(), ids=OFFENCES.keys())
def test_offence_is_found_at_its_line(clean, tool, offence):
    file, text, line, words = offence
    clean.add(file, text)
    outcome = check(clean, tool)
    assert outcome.code == 1
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith(f"{file}:{line}: ")
    assert words in outcome.lines[0]


def test_python_reason_may_stand_on_the_next_line(clean, tool):
    clean.add("tests/cli/x_test.py", f'{PYTEST_MARK}if(\n    True, reason="no GPU"\n)\ndef test_x(): ...\n')
    assert check(clean, tool).code == 0


def test_case_that_another_one_runs_by_name_needs_no_reason(clean, tool):
    clean.add("tests/support/s.cpp", 'TEST(A, DISABLED_hangs) {}\nTEST(A, Ends) { run_again("A.DISABLED_hangs"); }\n')
    assert check(clean, tool).code == 0


def test_unconfigured_build_is_refused(clean, tool):
    (clean.root / "build/test_sources.txt").unlink()
    outcome = check(clean, tool)
    assert outcome.code == 1
    assert "configure the build first" in outcome.lines[0]


def test_git_decides_which_files_count(clean, tool):
    subprocess.run(["git", "init", "-q", clean.root], check=True)
    clean.add(".gitignore", "/build/\n/scratch/\n")
    clean.add("scratch/ignored_test.cpp", "\n")
    assert check(clean, tool).code == 0
    clean.add("weft/base/new_test.cpp", "\n")
    assert check(clean, tool).lines[0].startswith("weft/base/new_test.cpp:1: no target")
