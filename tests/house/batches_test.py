"""tools/batches.py: files that share a private name are never compiled together, and every other file is with its neighbours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_tree import REPO


def batches_of(root: Path, *words: str) -> dict[str, str]:
    done = subprocess.run([sys.executable, str(REPO / "tools/batches.py"), "--root", str(root), *words], capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"namespace weft {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}  // namespace weft\n")
    return root


@pytest.mark.parametrize("one, other", [
    ("void refuse(int a) {", "std::string refuse(const std::string& why) {"),
    ("constexpr Row kRows[] = {", "constexpr int kRows = 3;"),
    ("constexpr int kA = 1, kMs = 2;", "constexpr int kMs = 2;"),
    ("struct Column {", "class Column {"),
    ("using Json = nlohmann::json;", "using Json = nlohmann::ordered_json;"),
    ("std::map<int, std::string> names_of(int x) {", "int names_of(int x) {"),
    ("using detail::Json;", "using Json = nlohmann::ordered_json;"),
])
def test_a_name_that_two_files_have_keeps_them_apart(tmp_path, one, other):
    batch = batches_of(written(tmp_path, {"weft/base/a.cpp": one, "weft/base/b.cpp": other}))
    assert batch["weft/base/a.cpp"] != batch["weft/base/b.cpp"]


@pytest.mark.parametrize("one, other", [
    ("void refuse(int a) {", "void accept(int a) {"),
    ("using Json = nlohmann::json;", "using Json = nlohmann::json;"),
    ("using enum Severity;", "using enum Severity;"),
    ("int a() {\n  int x = 1;", "int b() {\n  int x = 1;"),
])
def test_files_without_one_are_compiled_together(tmp_path, one, other):
    batch = batches_of(written(tmp_path, {"weft/base/a.cpp": one, "weft/base/b.cpp": other}))
    assert batch["weft/base/a.cpp"] == batch["weft/base/b.cpp"]


def test_a_batch_has_no_more_files_than_told_and_no_file_is_left_out(tmp_path):
    batch = batches_of(written(tmp_path, {f"weft/base/f{n}.cpp": f"int f{n}() {{" for n in range(20)}), "--size", "6")
    assert len(batch) == 20
    assert max(list(batch.values()).count(name) for name in batch.values()) == 6


def test_the_hard_ones_are_filled_up_by_the_easy_ones(tmp_path):
    files = {f"weft/base/a{n}.cpp": f"int easy{n}() {{" for n in range(4)} | {f"weft/base/z{n}.cpp": "void refuse() {" for n in range(4)}
    batch = batches_of(written(tmp_path, files), "--size", "2")
    assert len(set(batch.values())) == 4


def test_a_name_that_a_neighbours_header_declares_keeps_them_apart(tmp_path):
    (tmp_path / "weft/base").mkdir(parents=True)
    (tmp_path / "weft/base/far.h").write_text("namespace weft {\nstruct Job {\n};\n}\n")
    (tmp_path / "weft/base/near.h").write_text('#include "weft/base/far.h"\n')
    written(tmp_path, {"weft/base/a.cpp": "struct Job {", "weft/base/b.cpp": "int b() {"})
    assert len(set(batches_of(tmp_path).values())) == 1
    (tmp_path / "weft/base/b.cpp").write_text('#include "weft/base/near.h"\n')
    assert len(set(batches_of(tmp_path).values())) == 2


def test_folders_do_not_mix(tmp_path):
    batch = batches_of(written(tmp_path, {"weft/comm/a.cpp": "int a() {", "weft/comm/c10d/b.cpp": "int b() {"}))
    assert batch["weft/comm/a.cpp"] != batch["weft/comm/c10d/b.cpp"]


def test_tests_and_files_are_apart():
    for path, name in batches_of(REPO).items():
        assert ("_tests_" in name) == path.endswith("_test.cpp"), path
