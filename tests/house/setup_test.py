"""tools/setup where something is missing: a copy of the script in an empty tree, with stand-ins for the system's own tools."""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path

import pytest
from small_tree import REPO, Outcome, run

REAL_TOOLS = ("bash", "sh", "cat", "cmp", "dirname", "grep", "mkdir", "mv", "rm", "tail", "sed")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(REPO / "tools/setup", tmp_path / "tools/setup")
    for name in REAL_TOOLS:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    stand_in(tmp_path, "apt-get", 'echo "apt-get $*" >> apt.calls')
    stand_in(tmp_path, "dpkg-query", 'case "$*" in *liburing-dev*) exit 1 ;; *) printf installed ;; esac')
    stand_in(tmp_path, "id", "echo 0")
    stand_in(tmp_path, "python3", "exit 7")
    return tmp_path


def stand_in(place: Path, name: str, body: str) -> None:
    path = place / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def setup(place: Path, *flags: str, **env: str) -> Outcome:
    return run("env", "-i", f"PATH={place}/bin", *(f"{k}={v}" for k, v in env.items()), place / "tools/setup", *flags)


def without_browser(place: Path) -> None:
    stand_in(place, "dpkg-query", 'case "$*" in *chromium*) exit 1 ;; *) printf installed ;; esac')


def test_root_installs_exactly_what_is_missing_and_says_so(place):
    outcome = setup(place)
    assert "setup: installing 1 Debian packages that are missing: liburing-dev" in outcome.lines
    calls = (place / "apt.calls").read_text().splitlines()
    assert calls == ["apt-get update -q", "apt-get install -y --no-install-recommends liburing-dev"]


def test_nothing_is_installed_when_all_is_there(place):
    stand_in(place, "dpkg-query", "printf installed")
    setup(place)
    assert not (place / "apt.calls").exists()


def test_a_browser_is_installed_for_the_tests_alone(place):
    without_browser(place)
    setup(place)
    assert not (place / "apt.calls").exists()
    setup(place, "--test")
    assert "apt-get install -y --no-install-recommends chromium" in (place / "apt.calls").read_text()


def test_no_root_for_a_browser_is_no_reason_to_stop(place):
    without_browser(place)
    stand_in(place, "id", "echo 1000")
    stand_in(place, "sudo", "exit 1")
    outcome = setup(place, "--test")
    assert "setup: no root to install chromium: without a browser the tests of the pages are skipped" in outcome.lines
    assert any("making .venv" in line for line in outcome.lines), "it went on"


def test_a_browser_that_cannot_be_had_is_no_reason_to_stop(place):
    without_browser(place)
    stand_in(place, "apt-get", "echo E: Unable to locate package chromium; exit 100")
    outcome = setup(place, "--test")
    assert any("E: Unable to locate package chromium" in line for line in outcome.lines)
    assert "setup: without a browser the tests of the pages are skipped" in outcome.lines
    assert any("making .venv" in line for line in outcome.lines), "it went on"


def test_a_tree_with_libraries_of_its_own_asks_for_no_browser(place):
    without_browser(place)
    (place / "include").mkdir()
    setup(place, "--test", WEFT_DEPS=str(place))
    assert not (place / "apt.calls").exists()


def test_without_root_or_sudo_the_exact_command_is_printed(place):
    stand_in(place, "id", "echo 1000")
    stand_in(place, "sudo", "exit 1")
    outcome = setup(place)
    assert outcome.code == 1
    assert "  do:    sudo apt-get update && sudo apt-get install -y --no-install-recommends liburing-dev" in outcome.lines
    assert not (place / "apt.calls").exists()


def test_with_sudo_it_is_used(place):
    stand_in(place, "id", "echo 1000")
    stand_in(place, "sudo", 'echo "sudo $*" >> sudo.calls')
    setup(place)
    assert "sudo apt-get update -q" in (place / "sudo.calls").read_text()


def test_a_failing_apt_is_reported_with_its_log(place):
    stand_in(place, "apt-get", "echo E: no network; exit 100")
    outcome = setup(place)
    assert outcome.code == 1
    assert "error: apt-get could not install liburing-dev" in outcome.lines
    assert any("E: no network" in line for line in outcome.lines)


def test_an_interpreter_without_torch_is_refused_with_the_fix(place):
    stand_in(place, "dpkg-query", "printf installed")
    outcome = setup(place, WEFT_PYTHON=f"{place}/bin/python3")
    assert outcome.code == 1
    assert "error: WEFT_PYTHON has no torch" in outcome.lines


def test_the_users_torch_is_used_as_it_is(place):
    """No .venv and no download when the interpreter has all it takes."""
    if not has_everything():
        pytest.skip("the interpreter that runs the tests has no torch (Torch_DIR was given)")
    stand_in(place, "dpkg-query", "printf installed")
    outcome = setup(place, WEFT_PYTHON=sys.executable)
    assert outcome.code == 0, outcome.lines
    assert not (place / ".venv").exists()
    env = dict(line.split("=", 1) for line in (place / "build/setup.env").read_text().splitlines())
    assert env["WEFT_PYTHON"] == sys.executable
    assert Path(env["WEFT_TORCH_ROOT"], "lib/libtorch.so").exists()


def test_an_interpreter_without_the_tools_of_tests_is_enough_to_build(place):
    stand_in(place, "dpkg-query", "printf installed")
    (place / "torch/lib").mkdir(parents=True)
    (place / "torch/lib/libtorch.so").touch()
    # It has a torch (-c asks for its folder), and no other module; it cannot make an environment.
    stand_in(place, "python3", f'case "$1" in -c) echo {place}/torch ;; *) exit 1 ;; esac')
    outcome = setup(place, WEFT_PYTHON=f"{place}/bin/python3")
    assert outcome.code == 0, outcome.lines
    assert f"WEFT_PYTHON={place}/bin/python3" in (place / "build/setup.env").read_text()
    assert setup(place, "--test", WEFT_PYTHON=f"{place}/bin/python3").code == 1, "the tests need them"


def test_a_libtorch_that_is_none_is_refused(place):
    stand_in(place, "dpkg-query", "printf installed")
    outcome = setup(place, Torch_DIR=str(place))
    assert outcome.code == 1
    assert "error: Torch_DIR does not hold TorchConfig.cmake" in outcome.lines


def has_everything() -> bool:
    import importlib.util

    return all(importlib.util.find_spec(name) for name in ("torch", "pytest", "safetensors", "numpy", "prometheus_client", "tensorboard"))
