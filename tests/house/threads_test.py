"""cmake/WeftThreads.cmake: which test files the thread sanitizer's build has."""

from __future__ import annotations

import pytest
from small_tree import REPO, Outcome, Tree, run

FILES = {"alone_test.cpp": "TEST(A, B) {}\n", "threads_test.cpp": "TEST(A, C) { std::thread([] {}).join(); }\n", "calls_test.cpp": "TEST(A, D) { save(); }\n"}


@pytest.fixture
def room(tree: Tree) -> Tree:
    for name, text in FILES.items():
        tree.add(name, text)
    return tree


def chosen(tree: Tree, sanitizer: str, threads: str, every: str = "OFF") -> Outcome:
    tree.add("room.cmake", f"""cmake_minimum_required(VERSION 3.25)
include({REPO}/cmake/WeftThreads.cmake)
set(WEFT_ALL_TESTS_HAVE_THREADS {every})
weft_files_to_test(files base_test "{';'.join(FILES)}" "{threads}")
message(NOTICE "files: ${{files}}")
""")
    return run("cmake", "-E", "chdir", tree.root, "cmake", f"-DWEFT_SANITIZE={sanitizer}", "-P", "room.cmake")


def test_other_builds_have_every_file_in_its_place(room):
    for sanitizer in ("", "address"):
        assert chosen(room, sanitizer, "threads_test.cpp").lines == ["files: alone_test.cpp;threads_test.cpp;calls_test.cpp"]


def test_the_thread_sanitizers_build_has_those_with_threads(room):
    assert chosen(room, "thread", "threads_test.cpp;calls_test.cpp").lines == ["files: threads_test.cpp;calls_test.cpp"]


def test_nightly_asks_for_all(room):
    assert len(chosen(room, "thread", "threads_test.cpp", "ON").lines[0].split(";")) == 3


def test_a_file_with_threads_and_without_the_word_is_refused(room):
    outcome = chosen(room, "thread", "calls_test.cpp")
    assert outcome.code != 0
    assert any("base_test: threads_test.cpp has threads" in line for line in outcome.lines)
    assert any("do: list it under THREADS" in line for line in outcome.lines)


def test_a_word_for_no_file_is_refused(room):
    outcome = chosen(room, "", "gone_test.cpp")
    assert outcome.code != 0 and any("gone_test.cpp stands under THREADS" in line for line in outcome.lines)
