"""tools/nightly on a made-up table: what it runs, what it says, the dated file; and that the real table is sound."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from small_tree import DEADLINE_S, REPO, Outcome, Tree, run

TABLE = """[[item]]
name = "good"
covers = ["weft/base", "docs/page.md"]
minutes = 2
why = "it takes long"
builds = ["release"]
command = "echo from $WEFT_PYTHON; echo all well"

[[item]]
name = "bad"
covers = ["weft/comm"]
minutes = 1
why = "it takes long too"
builds = []
command = "echo it broke >&2; exit 3"
"""


@pytest.fixture
def place(tree: Tree) -> Tree:
    (tree.root / "tools").mkdir()
    shutil.copy(REPO / "tools/nightly", tree.root / "tools/nightly")
    shutil.copytree(REPO / "tools/testing", tree.root / "tools/testing")
    tree.add("tests/nightly.toml", TABLE)
    tree.add("build/setup.env", "WEFT_PYTHON=/the/python\n")
    script(tree, "tools/progress", 'cat > "$(dirname "$0")/../said"')
    script(tree, "tools/build", 'echo "build $*"')
    return tree


def script(tree: Tree, name: str, body: str) -> None:
    tree.add(name, f"#!/bin/sh\n{body}\n")
    (tree.root / name).chmod(0o755)


def nightly(tree: Tree, *words: object) -> Outcome:
    return run("env", "-u", "WEFT_PYTHON", "PYTHONDONTWRITEBYTECODE=1", tree.root / "tools/nightly", *words)


def kept(tree: Tree) -> str:
    (path,) = (tree.root / "benchmarks/results").glob("nightly_*.md")
    return path.read_text()


def test_an_item_runs_after_its_build_and_leaves_a_dated_result(place):
    outcome = nightly(place, "good")
    assert outcome.code == 0
    assert outcome.lines[-1].split()[-2:] == ["good:", "passed"]
    assert (place.root / "build/nightly/good.log").read_text().splitlines() == ["build release --tests", "from /the/python", "all well"]
    text = kept(place)
    assert "## good: passed in 0 s" in text and "all well\n```" in text and " cores" in text
    assert "commit " in text


def test_all_run_and_one_that_fails_is_shown_with_its_last_words(place):
    outcome = nightly(place)
    assert outcome.code == 1
    assert "           it broke" in outcome.lines
    assert outcome.lines[-1] == "           to repeat it: tools/nightly bad"
    assert "## bad: failed with exit code 3 in 0 s" in kept(place) and "## good: passed" in kept(place)
    said = (place.root / "said").read_text().splitlines()
    assert said[0] == "0 180 good, 0 of 2 items done" and "120 180 bad, 1 of 2 items done" in said


def test_a_second_run_of_a_day_replaces_its_own_items_alone(place):
    nightly(place)
    place.add("tests/nightly.toml", TABLE.replace("exit 3", "exit 0"))
    assert nightly(place, "bad").code == 0
    text = kept(place)
    assert text.count("## bad: ") == 1 and "## bad: passed" in text and "## good: passed" in text


def test_a_build_that_fails_is_the_items_failure(place):
    script(place, "tools/build", "echo no compiler; exit 2")
    outcome = nightly(place, "good")
    assert outcome.code == 1 and "           no compiler" in outcome.lines


def test_the_list_says_how_long_and_why(place):
    outcome = nightly(place, "--list")
    assert outcome == (0, ["good (about 2 minutes)", "  it takes long", "  covers weft/base docs/page.md", "bad (about 1 minutes)", "  it takes long too",
                           "  covers weft/comm"])


@pytest.mark.parametrize("paths, names", [
    (["weft/base/aio.cpp"], ["good"]), (["docs/page.md", "weft/comm/group.h"], ["good", "bad"]), (["./weft/comm"], ["bad"]), (["weft/basement/x.h"], [])])
def test_covers_names_the_items_for_a_change(place, paths, names):
    outcome = nightly(place, "--covers", *paths)
    assert outcome.code == 0
    assert [line.split()[1] for line in outcome.lines if line] == names


@pytest.mark.parametrize("table, words, reason", [
    (TABLE, ["other"], "has no other"), (TABLE.replace("minutes = 1", 'minutes = "long"'), [], "item bad"),
    (TABLE.replace('"bad"', '"good"'), [], "two items have one name"), (TABLE.replace('why = "it takes long too"\n', ""), [], "'why'")])
def test_wrong_names_and_tables_are_refused(place, table, words, reason):
    place.add("tests/nightly.toml", table)
    outcome = nightly(place, *words)
    assert outcome.code == 2 and reason in "\n".join(outcome.lines)


def test_ctrl_c_ends_the_item_and_what_it_started(place):
    place.add("tests/nightly.toml", TABLE.replace("echo it broke >&2; exit 3", f"setsid sleep 1000 & echo $! > {place.root}/pid; wait"))
    process = subprocess.Popen([place.root / "tools/nightly"], stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + DEADLINE_S
    while not (place.root / "pid").exists() or not (place.root / "pid").read_text().endswith("\n"):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert out.splitlines()[-1] == "stopped: 1 items did not end" and "## good: passed" in kept(place)
    assert not Path(f"/proc/{(place.root / 'pid').read_text().strip()}/exe").exists()


def test_the_real_table_covers_places_that_are_there():
    outcome = run(REPO / "tools/nightly", "--list")
    assert outcome.code == 0, outcome.lines
    covered = [path for line in outcome.lines if line.startswith("  covers ") for path in line.split()[1:]]
    assert covered and [path for path in covered if not (REPO / path).exists()] == []
