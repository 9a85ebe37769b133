"""Installs weft, then builds and runs a project that knows nothing of our tree but find_package(weft).

WEFT_BUILD_DIR names the build to install; build/release otherwise. A build that was asked for and is not there is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from small_tree import REPO, Outcome, run

pytestmark = pytest.mark.xdist_group("consumer")


def build_folder() -> Path:
    return REPO / os.environ.get("WEFT_BUILD_DIR", "build/release")


def must(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, "\n".join(outcome.lines[-60:])
    return outcome


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    build = build_folder()
    if "WEFT_BUILD_DIR" not in os.environ and not (build / "bin/weft").exists():
        pytest.fail(f"no build in {build}: build first (make), or set WEFT_BUILD_DIR")
    folder = tmp_path_factory.mktemp("prefix")
    must(run("cmake", "--install", build, "--prefix", folder))
    return folder


@pytest.fixture(scope="module")
def consumer(prefix: Path, tmp_path_factory) -> Path:
    """The consumer's build folder, outside our tree, so that no header of ours can be found by accident."""
    source = tmp_path_factory.mktemp("outside") / "consumer"
    shutil.copytree(REPO / "tests/consumer", source)
    build = source / "build"
    must(run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"))
    must(run("cmake", "--build", build))
    return build


def installed_files(prefix: Path) -> list[str]:
    return [path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()]


def test_outside_project_builds_and_runs(consumer):
    outcome = must(run(consumer / "consumer"))
    assert re.fullmatch(r"weft \d+\.\d+\.\d+", outcome.lines[0])
    assert outcome.lines[-1] == "consumer ok"


def test_installed_headers_are_public_ones(prefix):
    names = installed_files(prefix)
    assert "include/weft/weft.h" in names
    assert "include/weft/base/build_info.h" in names
    assert [name for name in names if name.endswith(("_impl.h", "_test.cpp"))] == []


def test_installed_package_names_no_path_of_the_build(prefix):
    build = str(build_folder().resolve())
    scripts = [path for path in prefix.rglob("*.cmake")]
    assert scripts
    assert [path.name for path in scripts if build in path.read_text(encoding="utf-8")] == []


def test_installed_command_tells_its_version(prefix):
    assert re.match(r"weft \d+\.\d+\.\d+", must(run(prefix / "bin/weft", "--version")).lines[0])


def test_installed_command_explains_train(prefix):
    assert "--steps" in "\n".join(must(run(prefix / "bin/weft", "train", "--help")).lines)
