"""tools/setup where something is missing: a copy of the script in an empty tree, with stand-ins for the system's own tools."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from small_tree import REPO
from stand_ins import Place, Started, told

ALL_THERE = """for each in "$@"; do printf '%s=installed ' "$each"; done"""
APT_INSTALL = "apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o APT::Status-Fd=3"
# A Python that can make environments: their interpreter is this script again, and pip makes a torch.
PYTHON = """case "$*" in
  *venv_lacks.py*) [ -e {root}/.venv/torch ] || case "$*" in *--*) ;; *torch*) echo torch ;; esac ;;
  "-m venv"*) mkdir -p {root}/.venv/bin && cp "$0" {root}/.venv/bin/python && touch {root}/.venv/pyvenv.cfg ;;
  "-m pip"*) echo "pip $*" >> {root}/pip.calls; {pip} ;;
  "-c"*) echo {root}/.venv/torch ;;
esac"""
PIP = "mkdir -p {root}/.venv/torch/lib && touch {root}/.venv/torch/lib/libtorch.so"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, "setup", "setup_packages.sh", "setup_python.sh", "venv_lacks.py")
    made.stand_in("apt-get", 'echo "apt-get $*" >> apt.calls')
    without(made, "liburing-dev")
    made.stand_in("id", "echo 0")
    made.stand_in("python3", "exit 7")
    return made


def without(place: Place, package: str) -> None:
    place.stand_in("dpkg-query", f"""for each in "$@"; do [ "$each" = {package} ] || printf '%s=installed ' "$each"; done""")


def with_python(place: Place, pip: str = PIP) -> None:
    place.stand_in("dpkg-query", ALL_THERE)
    place.stand_in("cp", f'exec {os.path.realpath("/bin/cp")} "$@"')
    place.stand_in("touch", 'for each in "$@"; do : >"$each"; done')
    place.stand_in("python3", PYTHON.replace("{pip}", pip).replace("{root}", str(place.root)))


def apt_calls(place: Place) -> list[str]:
    path = place.root / "apt.calls"
    return path.read_text().splitlines() if path.exists() else []


def test_root_installs_exactly_what_is_missing_and_says_so(place):
    outcome = place.run("setup")
    assert "setup: installing 1 Debian packages that are missing: liburing-dev" in outcome.lines
    assert apt_calls(place) == ["apt-get update -q", f"{APT_INSTALL} liburing-dev"]


def test_what_apt_reports_is_shown(place):
    place.stand_in("apt-get", """case $1 in install) echo dlstatus:1:50.0:x >&3; echo pmstatus:liburing-dev:amd64:75.5:x >&3 ;; esac""")
    outcome = place.run("setup")
    assert "setup: Debian packages: reading the lists (0%)" in outcome.lines
    place.stand_in("apt-get", """case $1 in install) echo dlstatus:1:50.0:x >&3; echo pmstatus:g++:75.5:x >&3 ;; esac""")
    assert "setup: Debian packages: g++ (87%)" in place.run("setup").lines


def test_nothing_is_installed_when_all_is_there(place):
    place.stand_in("dpkg-query", ALL_THERE)
    place.run("setup")
    assert not apt_calls(place)


@pytest.mark.parametrize("package, flag", [("libgtest-dev", "--test"), ("elfutils", "--test"), ("iproute2", "--test"), ("ccache", "--test"),
                                           ("chromium", "--test"), ("clang-19", "--lint"), ("clang-format-19", "--lint")])
def test_what_only_tests_and_lint_need_is_asked_for_by_name(place, package, flag):
    without(place, package)
    place.run("setup")
    assert not apt_calls(place), "the product needs none of it"
    place.run("setup", flag)
    assert f"{APT_INSTALL} {package}" in apt_calls(place)


def test_the_flags_add_up(place):
    place.stand_in("dpkg-query", """for each in "$@"; do case $each in clang-19 | ccache) ;; *) printf '%s=installed ' "$each" ;; esac; done""")
    place.run("setup", "--lint", "--test")
    assert f"{APT_INSTALL} ccache clang-19" in apt_calls(place)


def test_an_unknown_flag_is_refused(place):
    assert place.run("setup", "--tests") == (2, ["setup: unknown flag --tests (known: --test, --lint)"])


def test_no_root_for_a_browser_is_no_reason_to_stop(place):
    without(place, "chromium")
    place.stand_in("id", "echo 1000")
    place.stand_in("sudo", "exit 1")
    outcome = place.run("setup", "--test")
    assert "setup: no root to install chromium: without a browser the tests of the pages are skipped" in outcome.lines
    assert any("making .venv" in line for line in outcome.lines), "it went on"


def test_a_browser_that_cannot_be_had_is_no_reason_to_stop(place):
    without(place, "chromium")
    place.stand_in("apt-get", "echo E: Unable to locate package chromium >&2; exit 100")
    outcome = place.run("setup", "--test")
    assert any("E: Unable to locate package chromium" in line for line in outcome.lines)
    assert "setup: without a browser the tests of the pages are skipped" in outcome.lines
    assert any("making .venv" in line for line in outcome.lines), "it went on"


def test_a_tree_with_libraries_of_its_own_asks_for_no_browser(place):
    without(place, "chromium")
    (place.root / "include").mkdir()
    place.run("setup", "--test", WEFT_DEPS=str(place.root))
    assert not apt_calls(place)


def test_without_root_or_sudo_the_exact_command_is_printed(place):
    place.stand_in("id", "echo 1000")
    place.stand_in("sudo", "exit 1")
    outcome = place.run("setup")
    assert outcome.code == 1
    assert "  do:    sudo apt-get update && sudo apt-get install -y --no-install-recommends liburing-dev" in outcome.lines
    assert not apt_calls(place)


def test_with_sudo_it_is_used(place):
    place.stand_in("id", "echo 1000")
    place.stand_in("sudo", 'case $1 in -n) ;; *) echo sudo >> sudo.calls; exec "$@" ;; esac')
    place.run("setup")
    assert place.text("sudo.calls") == "sudo\n"
    assert f"{APT_INSTALL} liburing-dev" in apt_calls(place)


def test_a_failing_apt_is_reported_with_its_log(place):
    place.stand_in("apt-get", "echo E: no network >&2; exit 100")
    outcome = place.run("setup")
    assert outcome.code == 1
    assert "error: apt-get could not install liburing-dev" in outcome.lines
    assert any("E: no network" in line for line in outcome.lines)


def expect_interrupted(place, how: str) -> None:
    """Starts the set-up, and interrupts it where a stand-in writes to `reached`."""
    with Started(place, "setup") as started:
        told(place.root / "reached")
        getattr(started, how)()
        outcome = started.end()
    assert outcome.code == 130
    assert outcome.lines[-1] == "setup: interrupted; run the same command again, it goes on"


@pytest.mark.parametrize("how", ["interrupt_group", "interrupt_alone"])
def test_an_interrupted_apt_ends_and_the_next_call_goes_on(place, how):
    os.mkfifo(place.root / "reached")
    place.stand_in("apt-get", f"echo here >{place.root}/reached; sleep 600")
    expect_interrupted(place, how)
    place.stand_in("apt-get", 'echo "apt-get $*" >> apt.calls')
    place.run("setup")
    assert f"{APT_INSTALL} liburing-dev" in apt_calls(place)


# --- Python ------------------------------------------------------------------------------------------------------------------


def test_a_bare_machine_gets_an_environment_with_torch_and_no_test_tools(place):
    with_python(place)
    outcome = place.run("setup")
    assert outcome.code == 0, outcome.lines
    [call] = place.text("pip.calls").splitlines()
    assert call.endswith("--no-compile --progress-bar off torch==2.13.0")
    assert f"WEFT_TORCH_ROOT={place.root}/.venv/torch" in place.text("build/setup.env")


def test_a_second_call_starts_no_program_to_ask(place):
    with_python(place)
    assert place.run("setup").code == 0
    for name in ("python3", "dpkg-query", "apt-get"):
        place.stand_in(name, f"echo {name} >> {place.root}/asked")
    python = place.root / ".venv/bin/python"
    # The same place, time and size; what it does would be seen.
    before = python.stat()
    text = python.read_text()
    python.write_text(("#!/bin/sh\necho python >> asked\n" + "#" * 2000)[: len(text)])
    os.utime(python, ns=(before.st_atime_ns, before.st_mtime_ns))
    place.stand_in("python3", "exit 7")
    os.utime(place.root / "bin/python3", ns=(before.st_atime_ns, before.st_mtime_ns))
    (place.root / "build/setup-no-no.stamp").write_text(identity_of(place))
    assert place.run("setup") == (0, [])
    assert not (place.root / "asked").exists()


def identity_of(place: Place) -> str:
    """What the script would note now."""
    script = place.text("tools/setup")
    start, end = script.index("identity() {"), script.index("is_done() {")
    path = place.root / "tools/identity"
    path.write_text(f"#!/bin/bash\nset -euo pipefail\ncd {place.root}\n{script[start:end]}\nidentity\n")
    path.chmod(0o755)
    return "\n".join(place.run("identity").lines) + "\n"


@pytest.mark.parametrize("changed", ["tools/setup_python.sh", ".venv/pyvenv.cfg"])
def test_after_a_change_it_looks_again(place, changed):
    with_python(place)
    place.run("setup")
    place.stand_in("dpkg-query", f"echo asked >> {place.root}/asked")
    os.utime(place.root / changed, (1, 1))
    place.run("setup")
    assert (place.root / "asked").exists()


@pytest.mark.parametrize("how", ["interrupt_group", "interrupt_alone"])
def test_an_interrupted_pip_ends_and_the_next_call_makes_all_anew(place, how):
    os.mkfifo(place.root / "reached")
    with_python(place, pip=f"{PIP}; echo here >{place.root}/reached; sleep 600")
    expect_interrupted(place, how)
    with_python(place)
    outcome = place.run("setup")
    assert outcome.code == 0, outcome.lines
    assert not (place.root / ".venv/unfinished").exists()


def test_an_environment_without_its_interpreter_is_made_anew(place):
    with_python(place)
    (place.root / ".venv/lib").mkdir(parents=True)
    outcome = place.run("setup")
    assert outcome.code == 0
    assert "setup: making .venv anew: its interpreter does not run" in outcome.lines
    assert not (place.root / ".venv/lib").exists()


def test_a_full_disk_is_named_with_what_is_free(place):
    with_python(place, pip="echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device'; exit 1")
    outcome = place.run("setup")
    assert outcome.code == 1
    assert any(line.startswith("error: no space left on the disk of /") for line in outcome.lines), outcome.lines
    assert any("MiB are free there; all of it takes about 1600 MiB" in line for line in outcome.lines)


def test_a_failing_pip_is_reported_with_its_log(place):
    with_python(place, pip="echo 'ERROR: No matching distribution found for torch'; exit 1")
    outcome = place.run("setup")
    assert outcome.code == 1
    assert "ERROR: No matching distribution found for torch" in outcome.lines
    assert "error: pip could not install torch==2.13.0" in outcome.lines


def test_a_second_setup_waits_for_the_first_and_names_it(place):
    os.mkfifo(place.root / "reached")
    os.mkfifo(place.root / "go")
    place.stand_in("apt-get", f'case $1 in update) echo here >{place.root}/reached; cat {place.root}/go ;; esac')
    with Started(place, "setup") as first:
        told(place.root / "reached")
        with Started(place, "setup") as second:
            line = second.process.stdout.readline()
            assert f"{place.root}/tools/setup` (process {first.process.pid}), which is at work in this tree" in line, line
            (place.root / "go").write_text("")
            first.end()
            place.stand_in("apt-get", "exit 0")
            second.end()


def test_an_interpreter_without_torch_is_refused_with_the_fix(place):
    place.stand_in("dpkg-query", ALL_THERE)
    outcome = place.run("setup", WEFT_PYTHON=f"{place.root}/bin/python3")
    assert outcome.code == 1
    assert "error: WEFT_PYTHON has no torch" in outcome.lines


def test_the_users_torch_is_used_as_it_is(place):
    """No .venv and no download when the interpreter has all it takes."""
    if not has_everything():
        pytest.skip("the interpreter that runs the tests has no torch (Torch_DIR was given)")
    place.stand_in("dpkg-query", ALL_THERE)
    outcome = place.run("setup", WEFT_PYTHON=sys.executable)
    assert outcome.code == 0, outcome.lines
    assert not (place.root / ".venv").exists()
    env = dict(line.split("=", 1) for line in place.text("build/setup.env").splitlines())
    assert env["WEFT_PYTHON"] == sys.executable
    assert Path(env["WEFT_TORCH_ROOT"], "lib/libtorch.so").exists()


def test_an_interpreter_without_the_tools_of_tests_is_enough_to_build(place):
    place.stand_in("dpkg-query", ALL_THERE)
    (place.root / "torch/lib").mkdir(parents=True)
    (place.root / "torch/lib/libtorch.so").touch()
    # It has a torch (-c asks for its folder), and no other module; it cannot make an environment.
    place.stand_in("python3", f'case "$1" in -c) echo {place.root}/torch ;; *) exit 1 ;; esac')
    outcome = place.run("setup", WEFT_PYTHON=f"{place.root}/bin/python3")
    assert outcome.code == 0, outcome.lines
    assert f"WEFT_PYTHON={place.root}/bin/python3" in place.text("build/setup.env")
    assert place.run("setup", "--test", WEFT_PYTHON=f"{place.root}/bin/python3").code == 1, "the tests need them"


def test_a_libtorch_that_is_none_is_refused(place):
    place.stand_in("dpkg-query", ALL_THERE)
    outcome = place.run("setup", Torch_DIR=str(place.root))
    assert outcome.code == 1
    assert "error: Torch_DIR does not hold TorchConfig.cmake" in outcome.lines


def has_everything() -> bool:
    import importlib.util

    return all(importlib.util.find_spec(name) for name in ("torch", "pytest", "safetensors", "numpy", "prometheus_client", "tensorboard"))


# --- What an environment lacks -----------------------------------------------------------------------------------------------


def distribution(folder: Path, name: str, *, files: dict[str, str], record: bool = True) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    if record:
        (info / "RECORD").write_text("".join(f"{file},,{len(text)}\n" for file, text in files.items()))


@pytest.fixture
def lacking(tmp_path: Path):
    """venv_lacks.py in an interpreter whose environment is one folder."""
    site = tmp_path / "site"
    program = f"""import runpy, sys
sys.path, sys.prefix, sys.argv = [{str(site)!r}, *(p for p in sys.path if "site-packages" not in p)], {str(tmp_path)!r}, sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")"""

    def ask(*words: str) -> list[str]:
        from small_tree import run

        return run(sys.executable, "-ISc", program, REPO / "tools/venv_lacks.py", *words).lines

    distribution(site, "whole", files={"whole/a.py": "a = 1"})
    distribution(site, "cut", files={"cut/b.py": "b = 2", "cut/c.py": "c = 3"})
    (site / "cut/b.py").write_text("b")
    distribution(site, "stopped", files={"stopped/c.py": "c = 3"}, record=False)
    return ask


def test_what_is_not_installed_or_another_version_is_lacking(lacking):
    assert lacking("whole", "cut", "absent", "whole==1.0", "whole==2.0") == ["absent", "whole==2.0"]


def test_a_file_that_was_cut_short_or_a_list_that_was_never_written_is_seen(lacking):
    assert lacking("--whole", "whole", "absent") == []
    assert lacking("--whole", "cut") == ["cut"]
    assert lacking("--all") == ["cut", "stopped"]
