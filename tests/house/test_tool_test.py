"""tools/test on a tree of made-up binaries and Python tests: counting, failures, crashes, filters, the stop by Ctrl-C, the files it writes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tree import DEADLINE_S, REPO, Outcome, Tree, run

# A GoogleTest binary in a few lines of shell: what it lists, and what it prints for each filter.
GOOD = """Good.
  One
  DISABLED_Off
  Two
Late.
  Skips
"""
RUN_GOOD = r"""
ok() { printf '[ RUN      ] %s\nsome words[       OK ] %s (%s ms)\n' "$1" "$1" "$2"; }
[ -z "$GTEST_BRIEF" ] || exit 9
case $1 in
  *=Good.\*) ok Good.One 20; ok Good.Two 1500 ;;
  *=Good.One) ok Good.One 20 ;;
  *=Late.\*) printf '[ RUN      ] Late.Skips\nlate_test.cpp:3: Skipped\nneeds two GPUs\n[  SKIPPED ] Late.Skips (0 ms)\n'; exit 77 ;;
  *) echo "unexpected: $*"; exit 3 ;;
esac
"""
BAD = "Bad.\n  Adds\n  Stays\n"
RUN_BAD = r"""printf '[ RUN      ] Bad.Adds\nbad_test.cpp:7: Failure\nExpected: 1\n  Actual: 2\n[  FAILED  ] Bad.Adds (3 ms)\n'
printf '[ RUN      ] Bad.Stays\n[       OK ] Bad.Stays (1 ms)\n'; exit 1"""
PRESETS = """{ "version": 6, "configurePresets": [{ "name": "base", "hidden": true, "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}" },
  { "name": "release", "inherits": "base" }, { "name": "asan", "inherits": "base" }],
  "testPresets": [{ "name": "release", "configurePreset": "release" }, { "name": "asan", "configurePreset": "asan" }] }
"""
PYTEST = """import pytest

def test_passes(): ...

@pytest.mark.parametrize("word", ["a@b", "c"])
def test_of_words(word): ...

@pytest.mark.skipif(True, reason="no lab here")
def test_skips(): ...

@pytest.mark.serial
def test_alone(): ...
"""


class Place:
    def __init__(self, tree: Tree):
        self.root, self.add = tree.root, tree.add
        for name in ("tools/test", "tools/testing"):
            source = REPO / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, self._made(name))
        self.script("tools/progress", 'cat > "$(dirname "$0")/../said"')
        self.add("CMakePresets.json", PRESETS)
        self.add("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npython_files = ["*_test.py"]\nmarkers = ["serial: alone"]\n')
        self.add("tests/empty/x_test.py", "")

    def _made(self, name: str) -> Path:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        return self.root / name

    def script(self, name: str, body: str) -> None:
        self.add(name, f"#!/bin/sh\n{body}\n")
        (self.root / name).chmod(0o755)

    def binary(self, name: str, listing: str, body: str, preset: str = "release") -> None:
        build = f"build/{preset}"
        (self.root / build / "suites").mkdir(parents=True, exist_ok=True)
        self.script(f"{build}/bin/{name}", f"case $1 in --gtest_list_tests) cat <<'END'\n{listing}END\nexit 0 ;; esac\n{body}")
        with (self.root / build / "CTestTestfile.cmake").open("a") as file:
            file.write(f"include({REPO}/cmake/WeftListSuites.cmake)\nweft_add_suites({name} {self.root}/{build}/bin/{name} 60 60 {self.root}/{build}/suites "
                       "${CMAKE_CURRENT_LIST_FILE})\n")

    def test(self, *words: str) -> Outcome:
        return run("env", f"WEFT_PYTHON={sys.executable}", "PYTHONDONTWRITEBYTECODE=1", self.root / "tools/test", *words)

    def said(self) -> list[str]:
        """What the line that moves was told."""
        return (self.root / "said").read_text().splitlines()

    def said_so_far(self, words: str) -> bool:
        return (self.root / "said").exists() and words in (self.root / "said").read_text()

    def results(self, preset: str = "release") -> dict:
        return json.loads((self.root / f"build/{preset}/test-results.json").read_text())


@pytest.fixture
def place(tree: Tree) -> Place:
    made = Place(tree)
    made.binary("good_test", GOOD, RUN_GOOD)
    return made


def test_cases_are_counted_as_they_end_and_the_last_line_says_how_many(place):
    outcome = place.test("release", "--only", "cpp")
    assert outcome.code == 0
    assert outcome.lines[-1] == "2 passed, 0 failed, 1 skipped"
    assert any(line.endswith("0 failed, 1 of 3 cases done") for line in place.said())
    done, total, *_ = place.said()[-1].split()
    assert done == total
    assert outcome.lines[:2] == ["slowest:", "    1.5 s  good_test:Good.Two"]
    assert "  1 x needs two GPUs" in outcome.lines and "      good_test:Late.Skips" in outcome.lines


def test_what_the_caller_wishes_of_googletest_does_not_reach_it(place, monkeypatch):
    monkeypatch.setenv("GTEST_BRIEF", "1")
    assert place.test("release", "--only", "cpp").lines[-1] == "2 passed, 0 failed, 1 skipped"


def test_the_results_are_a_file_that_others_read(place):
    place.test("release", "--only", "cpp")
    found = place.results()
    assert (found["schema"], found["preset"], found["is_whole"]) == (1, "release", False)
    assert found["cases"][1] == {"case": "good_test:Good.Two", "seconds": 1.5, "outcome": "passed"}
    assert json.loads((place.root / "build/release/test-times.json").read_text())["good_test:Good.Two"] == 1.5


def test_a_failure_is_shown_at_once_and_again_with_the_command_that_repeats_it(place):
    place.binary("bad_test", BAD, RUN_BAD)
    outcome = place.test("release", "--only", "cpp")
    assert outcome.code == 1
    said = place.said()
    assert said[said.index("! FAILED bad_test:Bad.Adds"):][:3] == ["! FAILED bad_test:Bad.Adds", "! bad_test.cpp:7: Failure", "! Expected: 1"]
    assert outcome.lines[-3:] == ["to repeat what failed:", "  build/release/bin/bad_test --gtest_filter=Bad.Adds", "3 passed, 1 failed, 1 skipped"]
    assert "  bad_test.cpp:7: Failure" in outcome.lines
    assert place.results()["cases"][0]["repeat"] == "build/release/bin/bad_test --gtest_filter=Bad.Adds"


@pytest.mark.parametrize("ending, word", [("kill -SEGV $$", "killed by SIGSEGV"), ("exit 0", "the process ended before this case did"),
                                          ("exit 124", "it hung: exit code 124")])
def test_cases_that_a_crash_kept_from_running_have_failed(place, ending, word):
    place.binary("bad_test", "Bad.\n  First\n  Second\n  Third\n", f"""printf '[ RUN      ] Bad.First\\n[       OK ] Bad.First (1 ms)\\n[ RUN      ] Bad.Second\\nlast words\\n'
{ending}""")
    outcome = place.test("release", "--only", "cpp", "--rooms", "bad")
    assert outcome.code == 1
    assert outcome.lines[-1] == "1 passed, 2 failed, 0 skipped"
    text = "\n".join(outcome.lines)
    assert f"FAILED bad_test:Bad.Second\n  last words\n  {word}" in text
    assert "FAILED bad_test:Bad.Third\n  it did not run: its process ended in bad_test:Bad.Second" in text


def test_a_binary_that_cannot_list_its_cases_is_a_failure(place):
    place.script("build/release/bin/good_test", "echo 'loading shared libraries: libx.so' >&2; exit 127")
    outcome = place.test("release", "--only", "cpp")
    assert outcome.code == 1
    assert "FAILED good_test:cannot_list_its_cases" in outcome.lines and "libx.so" in "\n".join(outcome.lines)


def test_pytest_runs_in_parallel_and_serial_cases_after_it(place):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed (tools/setup --test)")
    place.add("tests/cli/words_test.py", PYTEST)
    outcome = place.test("release", "--jobs", "2")
    assert outcome.code == 0, outcome.lines
    assert outcome.lines[-1] == "6 passed, 0 failed, 2 skipped"
    assert "  1 x no lab here" in outcome.lines
    names = [case["case"] for case in place.results()["cases"]]
    assert "tests/cli/words_test.py::test_of_words[a@b]" in names and place.results()["is_whole"] is True
    log = (place.root / "build/release/pytest.log").read_text()
    assert "bringing up nodes" in log and log.index("3 passed, 1 skipped") < log.index("1 passed, 4 deselected")


def test_a_python_failure_has_its_text_and_its_command(place):
    place.add("tests/cli/words_test.py", "def test_adds():\n    print('seen')\n    assert 1 + 1 == 3\n")
    outcome = place.test("release", "--only", "python", "--jobs", "1")
    assert outcome.code == 1
    said = place.said()
    assert said[said.index("! FAILED tests/cli/words_test.py::test_adds") + 1] == "! E       assert (1 + 1) == 3"
    assert "  E       assert (1 + 1) == 3" in outcome.lines and "  seen" in outcome.lines
    assert outcome.lines[-2] == f"  {sys.executable} -m pytest tests/cli/words_test.py::test_adds"


def test_a_python_file_that_cannot_be_read_is_a_failure(place):
    place.add("tests/cli/words_test.py", "import no_such_module\n")
    outcome = place.test("release", "--only", "python", "--jobs", "1")
    assert outcome.code == 1
    assert "FAILED tests/cli/words_test.py::collection" in outcome.lines and "no_such_module" in "\n".join(outcome.lines)


def test_pytest_that_ends_by_itself_is_a_failure(place):
    place.add("conftest.py", "import os\nos._exit(9)\n")
    outcome = place.test("release", "--only", "python", "--jobs", "1")
    assert outcome.code == 1 and "FAILED pytest::itself" in outcome.lines


def test_a_filter_chooses_cases_of_both_kinds(place):
    place.add("tests/cli/words_test.py", PYTEST)
    outcome = place.test("release", "--filter", "Good.One", "--jobs", "1")
    assert (outcome.code, outcome.lines[-1]) == (0, "1 passed, 0 failed, 0 skipped")
    outcome = place.test("release", "--filter", "test_of_words", "--jobs", "1")
    assert (outcome.code, outcome.lines[-1]) == (0, "2 passed, 0 failed, 0 skipped")


def test_rooms_are_binaries_and_folders(place):
    place.binary("cli_front_test", "Front.\n  Door\n", "printf '[ RUN      ] Front.Door\\n[       OK ] Front.Door (1 ms)\\n'")
    place.add("tests/cli/words_test.py", "def test_passes(): ...\n")
    place.add("tests/comm/words_test.py", "def test_passes(): ...\n")
    outcome = place.test("release", "--rooms", "cli", "--jobs", "1")
    assert (outcome.code, outcome.lines[-1]) == (0, "2 passed, 0 failed, 0 skipped")


def test_a_sanitizers_build_has_no_python_tests(place):
    place.binary("good_test", GOOD, RUN_GOOD, "asan")
    place.add("tests/cli/words_test.py", PYTEST)
    assert place.test("asan").lines[-1] == "2 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize("words, reason", [
    (["release", "--rooms", "attic"], "no room has the name attic"),
    (["release", "--filter", "NoSuchCase", "--only", "cpp"], "no case has 'NoSuchCase' in its name"),
    (["release", "--jobs", "0"], "--jobs wants a number above 0"),
    (["asan", "--only", "python"], "asan has no torch"),
    (["release", "--only", "rust"], "invalid choice"),
])
def test_wrong_usage(place, words, reason):
    place.binary("good_test", GOOD, RUN_GOOD, "asan")
    outcome = place.test(*words)
    assert outcome.code == 2 and reason in "\n".join(outcome.lines)


def test_a_preset_that_is_not_built_says_what_to_do(place):
    shutil.rmtree(place.root / "build")
    outcome = place.test("release")
    assert outcome.code == 1
    assert "  do:    tools/build release --tests" in outcome.lines


def test_ctrl_c_ends_the_tests_and_says_what_was_done(place):
    place.binary("slow_test", "Slow.\n  Waits\n", f"printf '[ RUN      ] Slow.Waits\\n'; setsid sleep 1000 & echo $! > {place.root}/pid; wait")
    process = subprocess.Popen([place.root / "tools/test", "release", "--only", "cpp", "--jobs", "2"], stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + DEADLINE_S
    while not ((place.root / "pid").exists() and place.said_so_far(" 3 of 4 cases done")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert out.splitlines()[0] == "stopped: 1 cases did not end"
    assert out.splitlines()[-1] == "2 passed, 0 failed, 1 skipped"
    assert has_ended(int((place.root / "pid").read_text()))
    assert place.results()["is_whole"] is False


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("known_by", ["a run before", "the list of long ones"])
def test_the_long_ones_go_first_once_they_are_known(place, known_by):
    place.binary("slow_test", "Slow.\n  Adds\n", "printf '[ RUN      ] Slow.Adds\\n[       OK ] Slow.Adds (9000 ms)\\n'")
    if known_by == "a run before":
        place.test("release", "--only", "cpp", "--jobs", "1")
    else:
        place.add("tests/long_cases.tsv", "# some\nslow_test:Slow.Adds\t9\n")
    order = place.root / "order"
    for name in ("good_test", "slow_test"):
        path = place.root / "build/release/bin" / name
        path.write_text(path.read_text().replace("exit 0 ;; esac", f"exit 0 ;; esac; echo {name} >> {order}"))
        os.utime(path, (0, 0))
    assert place.test("release", "--only", "cpp", "--jobs", "1").code == 0
    assert order.read_text().split() == ["slow_test", "good_test", "good_test"]
