"""tools/lint on a tree of one room: each check's verdict reaches the exit code, and nothing is analysed twice."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from small_tree import Outcome, Tree, run

TOOLS = ("lint", "run_tidy.py", "our_files.py", "check_layers.py", "check_tests.py", "check_words.py", "gen_docs.py", "gen_settings.py")
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(small STATIC weft/base/a.cpp)
target_include_directories(small PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(small PRIVATE -std=c++20 -Wall -Wno-stringop-overflow)
file(WRITE ${PROJECT_BINARY_DIR}/test_sources.txt "")
"""
PRESETS = """{
  "version": 6,
  "configurePresets": [{ "name": "tidy", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}" }]
}
"""
HEADER = "#pragma once\n\nnamespace weft {\nint twice(int number);\n}  // namespace weft\n"
SOURCE = '#include "weft/base/a.h"\n\nnamespace weft {\n\nint twice(int number) { return 2 * number; }\n\n}  // namespace weft\n'

TIDY = Path(__file__).resolve().parents[2] / ".venv/bin/clang-tidy"

needs_tools = pytest.mark.skipif(
    shutil.which("clang-format-19") is None or not TIDY.exists(),
    reason="clang-format-19 and clang-tidy are not installed (tools/setup --lint)",
)


@pytest.fixture
def small(tree: Tree, repo: Path) -> Tree:
    tree.add("CMakeLists.txt", CMAKE)
    tree.add("CMakePresets.json", PRESETS)
    tree.add("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    tree.add("tools/layers.txt", "base | no |\n")
    tree.add("weft/base/a.h", HEADER)
    tree.add("weft/base/a.cpp", SOURCE)
    for name in (".clang-format", ".clang-tidy", *(f"tools/{tool}" for tool in TOOLS)):
        shutil.copy(repo / name, tree.root / name)
    (tree.root / ".venv/bin").mkdir(parents=True)
    # A script, not a link: clang-tidy looks for its own headers beside itself.
    tidy = tree.root / ".venv/bin/clang-tidy"
    tidy.write_text(f'#!/bin/sh\nexec "{TIDY}" "$@"\n')
    tidy.chmod(0o755)
    return tree


def lint(tree: Tree, *options: str) -> Outcome:
    return run(tree.root / "tools/lint", *options)


def last_tidy_line(outcome: Outcome) -> str:
    return [line for line in outcome.lines if line.startswith("tidy:")][-1]


@needs_tools
def test_clean_tree_passes_and_is_analysed_once(small):
    first = lint(small)
    assert first.code == 0, "\n".join(first.lines)
    assert last_tidy_line(first) == "tidy: 1 files clean (1 analysed, 0 unchanged)"
    assert last_tidy_line(lint(small)) == "tidy: 1 files clean (0 analysed, 1 unchanged)"


@needs_tools
def test_a_changed_header_is_analysed_again(small):
    lint(small)
    small.add("weft/base/a.h", HEADER.replace("int twice", "// Two times the number.\nint twice"))
    assert last_tidy_line(lint(small)) == "tidy: 1 files clean (1 analysed, 0 unchanged)"


@needs_tools
def test_tidy_finding_fails_and_stays_found(small):
    small.add("weft/base/a.cpp", SOURCE.replace("number) {", "number) {\n  int* BadName = nullptr;").replace("2 *", "*BadName *"))
    run("clang-format-19", "-i", small.root / "weft/base/a.cpp")
    for _ in range(2):
        outcome = lint(small)
        assert outcome.code == 1
        text = "\n".join(outcome.lines)
        assert "weft/base/a.cpp:6:8: error: invalid case style for variable 'BadName'" in text
        assert "clang-analyzer-core.NullDereference" in text
        assert "lint: tidy failed, again: tools/lint --only tidy --files weft/base/a.cpp" in outcome.lines
        assert outcome.lines[-1] == "lint: failed: tidy"


@needs_tools
def test_file_that_does_not_compile_is_never_kept(small):
    broken = SOURCE.replace("2 * number", "2 * nobody")
    small.add("weft/base/a.cpp", broken)
    assert lint(small).code == 1
    assert list((small.root / "build/tidy/cache").iterdir()) == []


@needs_tools
def test_without_time_it_says_what_it_left_out(small):
    assert lint(small, "--fast").code == 0
    outcome = run(small.root / "tools/run_tidy.py", small.root / "build/tidy", "--minutes", "0")
    left_out = "tidy: no time for 1 of 1 files, those that changed longest ago"
    assert outcome == (0, ["tidy: 1/1", left_out, "tidy: 0 files clean (0 analysed, 0 unchanged)"])
    assert last_tidy_line(lint(small, "--minutes", "9")) == "tidy: 1 files clean (1 analysed, 0 unchanged)"


def commit(tree: Tree, name: str, text: str, when: int) -> None:
    tree.add(name, text)
    git = ("env", f"GIT_COMMITTER_DATE={1700000000 + when} +0000", "git", "-C", tree.root, "-c", "user.name=a", "-c", "user.email=a@b.c")
    assert run(*git, "add", name).code == 0
    assert run(*git, "commit", "-qm", name).code == 0


def test_what_changed_last_is_analysed_first(tree: Tree, repo: Path):
    specification = importlib.util.spec_from_file_location("run_tidy", repo / "tools/run_tidy.py")
    run_tidy = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(run_tidy)
    names = ["weft/old.cpp", "weft/new.cpp", "weft/user.cpp"]
    work = [run_tidy.Job(str(tree.root / name), "key") for name in names]

    def order() -> list[str]:
        return [os.path.relpath(job.file, tree.root) for job in run_tidy.newest_first(work, tree.root)]

    assert run("git", "init", "-q", tree.root).code == 0
    commit(tree, "weft/user.cpp", '#include "weft/user.h"\n', 1000)
    commit(tree, "weft/old.cpp", "", 2000)
    commit(tree, "weft/new.cpp", "", 3000)
    assert order() == ["weft/new.cpp", "weft/old.cpp", "weft/user.cpp"]
    commit(tree, "weft/user.h", "", 4000)
    assert order() == ["weft/user.cpp", "weft/new.cpp", "weft/old.cpp"]
    shutil.rmtree(tree.root / ".git")
    assert sorted(order()) == sorted(names)


@needs_tools
def test_fast_leaves_tidy_out(small):
    outcome = lint(small, "--fast")
    assert outcome.code == 0
    assert not any(line.startswith("tidy:") for line in outcome.lines)


@needs_tools
def test_format_offence_has_its_line_and_fix_mends_it(small):
    small.add("weft/base/a.cpp", SOURCE.replace("{ return 2 * number; }", "{ return 2*number; }"))
    outcome = lint(small, "--fast")
    assert outcome.code == 1
    assert "weft/base/a.cpp:5: not as clang-format-19 would write it (tools/lint --fix)" in outcome.lines
    assert lint(small, "--fast", "--fix").code == 0
    assert (small.root / "weft/base/a.cpp").read_text() == SOURCE


BREAKS = {
    "layers": ("weft/attic/x.h", "#pragma once\n"),
    "words": ("notes.md", "/ho" + "me/ann\n"),
    "tests": ("weft/base/x_test.cpp", "\n"),
    "python": ("tools/x.py", "def (:\n"),
    "docs": ("tools/environment.tsv", "name\n"),
    "settings": ("weft/config/settings.toml", "[[section]]\npath = 'a'\n"),
    "format": ("weft/base/b.h", "int  a;\n"),
}


@needs_tools
@pytest.mark.parametrize("who", BREAKS)
def test_each_checker_can_fail_the_run(small, who):
    small.add(*BREAKS[who])
    outcome = lint(small, "--fast")
    assert outcome.code == 1
    assert outcome.lines[-1] == f"lint: failed: {who}"
    assert f"lint: {who} failed, again: tools/lint --only {who}" in outcome.lines
    assert lint(small, "--only", who).lines[-1] == f"lint: failed: {who}"
    others = ",".join(other for other in BREAKS if other != who)
    assert lint(small, "--only", others).code == 0


@needs_tools
def test_a_tree_that_does_not_configure_fails(small):
    small.add("CMakeLists.txt", "message(FATAL_ERROR no)\n")
    outcome = lint(small, "--fast")
    assert outcome.code == 1
    assert outcome.lines[-2:] == ["cmake --preset tidy failed", "lint: failed: tests"]


@needs_tools
def test_files_limit_what_is_looked_at(small):
    small.add("weft/base/b.h", "int  a;\n")
    small.add("tools/x.py", "def (:\n")
    assert lint(small, "--only", "format,python,tidy", "--files", "weft/base/a.cpp").code == 0
    assert lint(small, "--only", "format", "--files", "weft/base/b.h").code == 1
    assert lint(small, "--only", "python", "--files", "tools/x.py").code == 1


def test_missing_clang_format_names_its_set_up(small):
    outcome = run("env", f"PATH={small.root}", sys.executable, small.root / "tools/lint")
    assert outcome == (1, ["lint: clang-format-19 is missing: tools/setup --lint installs it"])


@needs_tools
def test_missing_clang_tidy_names_the_set_up(small):
    (small.root / ".venv/bin/clang-tidy").unlink()
    assert lint(small) == (1, ["lint: .venv/bin/clang-tidy is missing: tools/setup --lint installs it"])


def test_unknown_option_is_refused(small):
    assert lint(small, "--quick").code == 2
    assert lint(small, "--only", "spelling").code == 2
    assert lint(small, "--minutes", "0").code == 2
