"""tools/ci with made-up steps: what runs when, what is said of the one that fails, and that nothing is left running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_tree import DEADLINE_S, REPO, Outcome, Tree, run

sys.path.insert(0, str(REPO / "tools"))
from ci_lib.budget import Budget, check_names, minutes_left, read_budget  # noqa: E402
from ci_lib.ending import table  # noqa: E402
from ci_lib.run import Done  # noqa: E402
from ci_lib.steps import Step, read_steps  # noqa: E402

LAST_LINES = 20
COMMAND = (sys.executable, "-B", str(REPO / "tools/ci"))


def prepare(tree: Tree, *steps: str, seconds: int = 600) -> None:
    names = [step.partition("|")[0].strip() for step in steps]
    rows = "".join(f"| {name} | {seconds} | |\n" for name in names)
    tree.add("CONTRIBUTING.md", f"| step | seconds | what |\n|---|---:|---|\n{rows}| **total** | 900 | |\n| ceiling | 1000 | |\n")
    tree.add("steps", "\n".join(steps) + "\n")


def ci(tree: Tree, *steps: str) -> Outcome:
    prepare(tree, *steps)
    return run("bash", "-c", f"{' '.join(COMMAND)} --root {tree.root} <{tree.root}/steps")


def started(tree: Tree, *steps: str) -> subprocess.Popen[str]:
    prepare(tree, *steps)
    with (tree.root / "steps").open() as lines:
        return subprocess.Popen([*COMMAND, "--root", tree.root], stdin=lines, stdout=subprocess.PIPE, text=True)


def read_until(process: subprocess.Popen[str], wanted: str) -> None:
    while (line := process.stdout.readline()) != wanted:
        assert line, f"it ended without {wanted!r}"


def rows(lines: list[str]) -> list[str]:
    """The table; the machine's ccache may have a word after it."""
    return [line for line in lines[lines.index("ci: step                        seconds   budget") + 1:] if " ccache had " not in line]


def ending(outcome: Outcome) -> str:
    assert outcome.code == 1, outcome.lines
    return "\n".join(outcome.lines[-LAST_LINES:])


def is_running(pid: int) -> bool:
    """A process that has ended and waits for its parent does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- A run that passes -----------------------------------------------------------------------------------------------------


def test_steps_run_in_order_and_leave_logs_and_times(tree):
    outcome = ci(tree, "one || echo first >>order", "two || echo second >>order; echo said")
    assert outcome.code == 0, outcome.lines
    assert (tree.root / "order").read_text() == "first\nsecond\n"
    assert (tree.root / "build/ci/two.log").read_text() == "said\n"
    times = json.loads((tree.root / "build/ci/times.json").read_text())
    assert [(step["name"], step["budget_seconds"], step["exit_code"]) for step in times["steps"]] == [("one", 600, 0), ("two", 600, 0)]
    assert [line.split()[1:4] for line in rows(outcome.lines)] == [["one", "0", "600"], ["two", "0", "600"], ["total", "0", "900"]]


def test_a_step_beside_runs_with_what_follows(tree):
    # Each of the two waits for the other: one after another, they would never end.
    os.mkfifo(tree.root / "there")
    os.mkfifo(tree.root / "back")
    outcome = ci(tree, "far | beside | echo a >there; cat back", "near || cat there; echo b >back", "last | after far | echo c")
    assert outcome.code == 0, outcome.lines
    assert "far | b" in outcome.lines
    assert outcome.lines.index("far | b") < outcome.lines.index("c")


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="a kernel that shares time between processes alone")
def test_a_step_beside_gives_way_to_the_others(tree):
    """Written down once `go` is there: the nice value of the session is set just after it began."""
    os.mkfifo(tree.root / "go")
    outcome = ci(tree, "far | beside | cat go; cat /proc/self/autogroup >far", "near || echo >go; cat /proc/self/autogroup >near",
                 "last | after far | true")
    assert outcome.code == 0, outcome.lines
    assert (tree.root / "far").read_text().endswith(" nice 15\n") and (tree.root / "near").read_text().endswith(" nice 0\n")


def test_the_time_waited_for_a_step_beside_has_a_row(tree):
    os.mkfifo(tree.root / "go")
    process = started(tree, "far | beside | cat go", "near || true", "last | after far | true")
    read_until(process, "ci: waiting for far\n")
    (tree.root / "go").write_text("\n")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert [line[4:30].strip() for line in rows(output.splitlines())] == ["near", "far", "waiting for far", "last", "total"]


def test_what_ccache_had_is_told(tree):
    tree.add("bin/ccache", '#!/bin/sh\nprintf "direct_cache_hit\\t%s\\npreprocessed_cache_hit\\t5\\ncache_miss\\t7\\n" "$(cat hits)"\n')
    (tree.root / "bin/ccache").chmod(0o755)
    tree.add("hits", "100")
    prepare(tree, "build || echo 130 >hits")
    outcome = run("bash", "-c", f"cd {tree.root}; PATH=$PWD/bin:$PATH {' '.join(COMMAND)} --root . <steps")
    assert outcome.lines[-1] == "ci: ccache had 30 of 30 compiles, 100 %"
    assert json.loads((tree.root / "build/ci/times.json").read_text())["ccache"] == {"hits": 30, "misses": 0}


def test_over_the_budget_is_marked_and_does_not_fail():
    budget = Budget({"quick": 5, "slow": 5}, 60, 90)
    done = [Done("quick", 5.4, 0, False), Done("slow", 7.6, 0, True), Done("waiting for slow", 2.0, 0, False)]
    lines = [" ".join(line.split()) for line in table(done, budget, 100.0)]
    assert lines == [
        "ci: step seconds budget",
        "ci: quick 5 5",
        "ci: slow 8 5 beside, OVER by 3 s",
        "ci: waiting for slow 2 -",
        "ci: total 100 60 OVER by 40 s, and over the ceiling of 90 s: what does not fit belongs into make nightly",
    ]


def test_the_last_step_gets_what_is_left_of_the_budget():
    budget, tidy = Budget({"tidy": 240}, 1500, 3000), Step("tidy", "")
    assert [minutes_left(budget, tidy, elapsed) for elapsed in (600.0, 1380.0, 2000.0)] == [4.0, 2.0, 1.0]


def test_minutes_stand_in_the_command(tree):
    assert "for 10 minutes" in ci(tree, "tidy || echo for {minutes} minutes").lines


# --- A run that fails ------------------------------------------------------------------------------------------------------


def results(*cases: tuple[str, str]) -> str:
    listed = [{"case": case, "seconds": 1.5, "outcome": outcome, "repeat": f"run {case}"} for case, outcome in cases]
    return json.dumps({"cases": listed})


def test_a_failed_test_is_named_with_its_command(tree):
    tree.add("made.json", results(("base_test:A.B", "passed"), ("base_test:A.C", "failed"), ("base_test:A.D", "skipped")))
    outcome = ci(tree, "build || true", "tests || mkdir -p build/release && cp made.json build/release/test-results.json; exit 1", "fuzz || true")
    end = ending(outcome).splitlines()
    assert end[-5:] == [
        "ci: never begun: fuzz",
        "error: CI failed in the step 'tests', which ended with 1 after 0 s",
        "  what:  base_test:A.C failed after 1.5 s",
        "  do:    run base_test:A.C",
        "  where: build/ci/tests.log",
    ]


def test_results_of_the_steps_own_preset_count(tree):
    tree.add("made.json", results(("base_test:A.C", "failed")))
    outcome = ci(tree, "asan tests || mkdir -p build/asan && cp made.json build/asan/test-results.json; exit 1 # tools/test asan")
    assert "  do:    run base_test:A.C" in ending(outcome)


def test_results_of_an_earlier_run_are_not_told(tree):
    tree.add("build/release/test-results.json", results(("base_test:Old.One", "failed")))
    os.utime(tree.root / "build/release/test-results.json", (1, 1))
    end = ending(ci(tree, "tests || echo no disk; exit 1"))
    assert "Old.One" not in end
    assert "  what:  no disk\n  do:    echo no disk; exit 1\n" in end


def test_many_failures_fit_into_the_last_lines(tree):
    tree.add("made.json", results(*((f"base_test:A.C{number}", "failed") for number in range(50))))
    end = ending(ci(tree, "tests || mkdir -p build/release && cp made.json build/release/test-results.json; seq 1000; exit 1"))
    assert "error: CI failed in the step 'tests'" in end
    assert "  do:    run base_test:A.C0" in end
    assert "  what:  44 more" in end


def test_half_written_results_are_said_to_be_so(tree):
    end = ending(ci(tree, "tests || mkdir -p build/release && echo '[{' >build/release/test-results.json; exit 1"))
    assert "failed_tests does not understand the results" in end


LOGS = {
    "a compile error": (
        "[3/9] Building x\nFAILED: weft/base/CMakeFiles/weft_base.dir/a.cpp.o \n/usr/bin/c++ -c a.cpp\n"
        "ROOT/weft/base/a.cpp: In function 'int f()':\nROOT/weft/base/a.cpp:7:3: error: 'x' was not declared\n 7 | x;\n",
        ["weft/base/a.cpp:7: error: 'x' was not declared"],
        "ninja -C build/asan weft/base/CMakeFiles/weft_base.dir/a.cpp.o",
    ),
    "an undefined symbol": (
        "FAILED: [code=1] bin/base_test \n/usr/bin/ld: a.o: undefined reference to `weft::f()'\n",
        ["/usr/bin/ld: a.o: undefined reference to `weft::f()'"],
        "ninja -C build/asan bin/base_test",
    ),
    "an offence of lint": (
        "words: 9 files\nlint: format failed, again: tools/lint --only format\nweft/a.h:5: not as clang-format-19 would write it\nlint: failed: format\n",
        ["weft/a.h:5: not as clang-format-19 would write it"],
        "tools/lint --only format",
    ),
    "a finding of clang-tidy": (
        "tidy: 10/20\nlint: tidy failed, again: tools/lint --only tidy --files weft/a.cpp\n"
        "ROOT/weft/a.cpp:6:8: error: invalid case [name]\n    6 |  int A;\nROOT/weft/a.cpp:6:8: note: use a\ntidy: findings with weft/a.cpp\n",
        ["weft/a.cpp:6:8: error: invalid case [name]"],
        "tools/lint --only tidy --files weft/a.cpp",
    ),
    "a failing input": (
        "fuzz: yaml: 9 inputs\nfuzz: hjson failed on build/asan/crashes/hjson/crash-1: build/asan/bin/hjson_fuzz build/asan/crashes/hjson/crash-1"
        " runs it again (log: build/asan/fuzz-hjson.log)\n",
        ["hjson failed on build/asan/crashes/hjson/crash-1"],
        "build/asan/bin/hjson_fuzz build/asan/crashes/hjson/crash-1",
    ),
    "an error of ours": ("error: no compiler\n  do: apt\n", ["error: no compiler"], "cat log; exit 2 # asan"),
}


@pytest.mark.parametrize("log, what, repeat", LOGS.values(), ids=LOGS.keys())
def test_the_log_says_what_and_how_to_repeat_it(tree, log, what, repeat):
    tree.add("log", log.replace("ROOT", str(tree.root)))
    end = ending(ci(tree, "step || cat log; exit 2 # asan"))
    for one in what:
        assert f"  what:  {one}\n" in end
    assert f"  do:    {repeat}\n" in end


def test_a_failure_beside_ends_what_runs(tree):
    os.mkfifo(tree.root / "begun")
    os.mkfifo(tree.root / "never")
    near = "near || setsid bash -c 'echo $$ >pid; echo >begun; exec cat never' & wait"
    outcome = ci(tree, "far | beside | cat begun; echo broken; exit 3", near, "last || true")
    end = ending(outcome)
    assert "error: CI failed in the step 'far', which ended with 3" in end
    assert "ci: ended before they were finished: near\nci: never begun: last\n" in end
    assert not is_running(int((tree.root / "pid").read_text()))


def test_a_signal_ends_what_runs_and_is_named(tree):
    os.mkfifo(tree.root / "never")
    process = started(tree, "tests || echo $$ >pid; echo begun; exec cat never")
    read_until(process, "begun\n")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert output.endswith("error: CI was stopped by SIGTERM\n  what:  tests ran then\n")
    assert not is_running(int((tree.root / "pid").read_text()))


# --- The steps and the budget ----------------------------------------------------------------------------------------------

WRONG = {
    "no command": ("one", "line 1 of the steps: expected `name | when | command`"),
    "unknown when": ("one | soon | true", "line 1 of the steps: `soon` is not empty, `beside` or `after NAME`"),
    "after nothing": ("one | after two | true", "line 1 of the steps: no step `two` above runs beside others"),
    "twice": ("one || true\none || true", "line 2 of the steps: there is a step `one` above"),
    "none": ("# nothing", "there are no steps"),
}


@pytest.mark.parametrize("steps, why", WRONG.values(), ids=WRONG.keys())
def test_wrong_steps_are_refused(tree, steps, why):
    outcome = ci(tree, steps)
    assert outcome.code == 2
    assert why in outcome.lines[1]


def test_a_step_without_a_row_in_the_budget_is_refused(tree):
    prepare(tree, "one || true")
    tree.add("steps", "one || true\ntwo || true\n")
    outcome = run("bash", "-c", f"{' '.join(COMMAND)} --root {tree.root} <{tree.root}/steps")
    assert outcome == (2, ["error: this is not a CI run", "  what:  no row of the budget is about the step `two`"])


def steps_of_ci() -> list[Step]:
    text = (REPO / ".ci/run").read_text(encoding="utf-8")
    return read_steps(re.search(r"<<'STEPS'\n(.*)^STEPS$", text, re.DOTALL | re.MULTILINE)[1])


def test_the_budget_is_about_the_steps_of_ci():
    budget = read_budget(REPO / "CONTRIBUTING.md")
    steps = steps_of_ci()
    check_names(budget, steps)
    assert sum(budget.seconds[step.name] for step in steps if not step.beside) <= budget.total
    assert any(step.command == "make test" for step in steps)


def test_what_later_work_may_add_stays_below_the_ceiling():
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    later = re.search(r"^\| later work \| minutes \|\n\|[-|: ]*\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    minutes = [int(row.strip("|").split("|")[1]) for row in later.splitlines()]
    budget = read_budget(REPO / "CONTRIBUTING.md")
    assert budget.total + 60 * sum(minutes) <= budget.ceiling
