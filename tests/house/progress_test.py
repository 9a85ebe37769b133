"""tools/progress: the line that moves on a terminal, and the lines that a log gets instead."""

from __future__ import annotations

import re
import subprocess
import unicodedata

import pytest
from small_tree import REPO
from terminal import PLAIN, OnTerminal

PROGRESS = REPO / "tools/progress"
ESCAPES = re.compile(r"\x1b\[[0-9;]*[mK]")


def lines_of(shown: str) -> list[str]:
    """What stood on the terminal's line, one after the other."""
    return [line for line in re.split(r"[\r\n]+", ESCAPES.sub("", shown)) if line.strip()]


def on_terminal(*lines: str, columns: int = 80, **env: str) -> str:
    terminal = OnTerminal(PROGRESS, "build", columns=columns, **env)
    terminal.say(*lines)
    return terminal.end()


def in_log(text: str, *flags: str, **env: str) -> list[str]:
    run = subprocess.run([PROGRESS, *flags, "build"], input=text, capture_output=True, text=True, check=True, env=PLAIN | env)
    assert run.stdout == ""
    return run.stderr.splitlines()


def test_a_terminal_shows_name_bar_percentage_and_text():
    last = lines_of(on_terminal("0 200 config", "50 200 weft/engine"))[-1]
    assert re.fullmatch(r"build  █+[▏▎▍▌▋▊▉]?░+   25%  weft/engine", last), last


@pytest.mark.parametrize("columns", [10, 20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_window(columns):
    text = "weft/engine: the training loop, and much more than any window shows " * 4
    for line in lines_of(on_terminal("0 200 x", f"50 200 {text}", columns=columns)):
        assert len(line) < columns, line


def test_forty_columns_hold_bar_percentage_and_the_start_of_the_text():
    last = lines_of(on_terminal("0 200 x", "50 200 compiling weft/engine/training.cpp", columns=40))[-1]
    assert re.fullmatch(r"██░░░░░░   25%  compiling weft/engine/…", last), last
    assert len(last) < 40


def test_a_window_that_grows_is_used():
    terminal = OnTerminal(PROGRESS, "build", columns=40)
    terminal.say("1 4 compiling weft/engine/training.cpp")
    terminal.see("engine/…")
    terminal.resize(120)
    # The kernel tells a terminal's foreground group; a pseudo terminal that controls nothing has none, so this is told by hand.
    terminal.process.send_signal(28)
    terminal.see("training.cpp")
    terminal.end()


def test_text_of_its_own_line_stands_above_the_one_that_moves():
    shown = on_terminal("1 4 a", "! NCCL is left out", "2 4 b")
    assert "\x1b[KNCCL is left out\r\n" in shown
    assert lines_of(shown)[-1].endswith("50%  b")


def test_time_left_comes_from_the_share_that_is_done_and_runs_by_itself():
    terminal = OnTerminal(PROGRESS, "build")
    terminal.say("0 3600 a")
    terminal.see("  0%")
    assert "ETA" not in terminal.shown, "nothing is known yet"
    while "ETA" not in terminal.shown:  # news counts once a second has passed
        terminal.say("40 3600 a")
        terminal.see("1%")
        terminal._read()
    times = set()
    while len(times) < 2:  # now the input is silent
        times = set(re.findall(r"ETA (\S+?)\x1b", terminal.shown))
        terminal._read()
    assert all(re.fullmatch(r"\d+m\d\ds|\d+s", each) for each in times), times
    terminal.end()


def test_work_of_unknown_size_shows_its_time():
    terminal = OnTerminal(PROGRESS, "setup")
    terminal.say("0 0 making .venv")
    terminal.see("1s so far")
    assert "%" not in terminal.shown
    terminal.end()


def test_a_terminal_that_does_not_speak_utf8_gets_ascii():
    shown = on_terminal("0 200 x", "50 200 größe", LC_ALL="C")
    last = lines_of(shown)[-1]
    assert re.fullmatch(r"build  \[#+\.+\]   25%  gr\?+e", last), last
    assert shown.isascii()


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(env):
    assert "\x1b[" in on_terminal("1 2 a")
    assert not re.search(r"\x1b\[\d", on_terminal("1 2 a", **env))


def test_a_dumb_terminal_gets_no_escapes_at_all():
    assert "\x1b" not in on_terminal("1 2 a", "! b", TERM="dumb")


def test_a_log_gets_the_first_and_the_last():
    text = "".join(f"{done} 100 step {done}\n" for done in range(101))
    assert in_log(text) == ["build: step 0 (0%)", "build: step 100 (100%)"]


def test_a_log_gets_a_line_now_and_then_though_the_input_is_silent():
    process = subprocess.Popen([PROGRESS, "--every", "1", "build"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN)
    process.stdin.write("5 10 linking\n")
    process.stdin.flush()
    assert [process.stderr.readline() for _ in range(3)] == ["build: linking (50%)\n"] * 3
    process.stdin.close()
    assert process.stderr.read() == "", "the last was shown already"
    assert process.wait() == 0


def test_a_log_has_no_control_characters_and_keeps_other_lines():
    lines = in_log("1 2 a\x1b[2Kb\tc\n! a line\nnot of ours\n")
    assert lines == ["build: a [2Kb c (50%)", "a line", "not of ours"]
    assert all(unicodedata.category(letter) != "Cc" for line in lines for letter in line)


def test_no_input_shows_nothing_and_a_line_without_its_end_counts():
    assert in_log("") == []
    assert in_log("3 4 a") == ["build: a (75%)"]


def test_more_than_all_is_all_and_large_numbers_hold():
    assert in_log("5 4 a\n") == ["build: a (100%)"]
    assert in_log("6000000000 8000000000 pip\n") == ["build: pip (75%)"]
    assert in_log("08 10 a\n") == ["build: a (80%)"]


def test_a_reader_that_left_stops_no_work():
    process = subprocess.Popen([PROGRESS, "build"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN)
    process.stderr.close()
    process.stdin.write("".join(f"{done} 1000 a\n! b\n" for done in range(1000)))
    process.stdin.close()  # a filter that had died would have broken the pipe
    assert process.wait() == 0


def test_ctrl_c_is_for_the_command_and_not_for_the_line():
    process = subprocess.Popen([PROGRESS, "build"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN)
    process.stdin.write("1 4 a\n")
    process.stdin.flush()
    assert process.stderr.readline() == "build: a (25%)\n"
    process.send_signal(2)
    process.stdin.write("2 4 interrupted\n")
    process.stdin.close()
    assert process.stderr.read() == "build: interrupted (50%)\n"
    assert process.wait() == 0
