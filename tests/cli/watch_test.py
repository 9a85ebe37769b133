"""`weft top` and `weft watch` as a user types them: folders, servers, flags, terminals, exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "monitor"))
from fake_run import FakeRun  # noqa: E402
from live_helpers import wait_until, watching  # noqa: E402


@pytest.fixture
def run(tmp_path):
    return FakeRun(tmp_path / "runs" / "demo", ranks=4, slow=2, start_s=time.time() - 60).write_all(300)


def test_once_shows_the_run(weft, run):
    done = weft("top", "runs/demo", "--once")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^demo  running  4 ranks", done.out) and "step    300" in done.out
    assert re.search(r"^> 2 .*12\.5 % slower in backward", done.out, re.M)
    assert "\x1b" not in done.out


def test_a_folder_of_runs_means_the_newest(weft, run, tmp_path):
    FakeRun(tmp_path / "runs" / "later").write_all(5)
    later = time.time() + 5
    os.utime(tmp_path / "runs" / "later" / "metrics.jsonl", (later, later))
    assert weft("top", "runs", "--once").out.startswith("later")


def test_json_is_the_state(weft, run):
    state = json.loads(weft("top", "runs/demo", "--once", "--json").out)
    assert (state["schema"], state["step"], state["status"]) == (1, 300, "running")
    assert json.loads(weft("watch", "runs/demo", "--once", "--json").out)["step"] == 300


def test_a_server_says_the_same(weft, run, build_dir):
    with watching(build_dir, run.folder, "--token", "abc") as server:
        assert "step    300" in weft("top", f"127.0.0.1:{server.port}", "--token", "abc", "--once").out
        assert "step    300" in weft("watch", server.url, "--once").out
        refused = weft("top", f"127.0.0.1:{server.port}", "--once")
        assert refused.code == 2 and "token" in refused.err
    assert weft("top", f"127.0.0.1:{server.port}", "--once").code == 1


def test_watching_a_server_says_what_a_browser_can_open(build_dir, run):
    with watching(build_dir, run.folder, "--token", "abc") as server:
        command = [str(build_dir / "bin" / "weft"), "watch", f"127.0.0.1:{server.port}", "--token", "abc"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr.readline() == f"in a browser: http://127.0.0.1:{server.port}/?token=abc\n"
            assert process.stdout.readline().startswith("demo: running, step 300, loss ")
            run.result("finished")
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.communicate()
        without = subprocess.run(command[:3], capture_output=True, text=True, timeout=20)
        assert without.returncode == 2 and f"http://127.0.0.1:{server.port}/ (with ?token=... behind it" in without.stderr


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["sentences", "json"])
def test_a_server_that_went_for_good_is_not_waited_for(build_dir, run, flags):
    with watching(build_dir, run.folder) as server:
        command = [str(build_dir / "bin" / "weft"), "top", f"127.0.0.1:{server.port}", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "running" in process.stdout.readline()
    try:
        out, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert out.count("connection lost, retrying") == 1
    assert said.startswith("error: nobody shows the run any more") and "demo: running, step 300" in said and f"127.0.0.1:{server.port}" in said


def test_escapes_of_a_run_do_not_reach_the_terminal(weft, run):
    run.result("running\x1b]0;owned\x07", name="de\x1b[2Jmo", device="c\x9bpu")
    run.write_ranks(slow=[{"rank": -1, "phase": "link", "where": "\x1b[31mx", "percent": 40.0, "ms": 12.0, "since_step": 260}])
    done = weft("top", "runs/demo", "--once")
    assert "the link between ranks is 40.0 % slower than it was" in done.out
    assert not {"\x1b", "\x07", "\x9b"} & set(done.out)


def test_into_a_pipe_it_says_a_line_until_the_run_ends(build_dir, run):
    process = subprocess.Popen([str(build_dir / "bin" / "weft"), "top", str(run.folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("demo: running, step 300, loss ")
        run.result("finished")
        assert process.stdout.readline().startswith("demo: finished, step 300")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def test_wrong_usage(weft, run):
    assert weft("top").code == 2 and weft("watch").code == 2
    for command in ("top", "watch"):
        done = weft(command, "nowhere")
        assert done.code == 2 and "nowhere" in done.err and "do:" in done.err
    assert weft("watch", "runs/demo", "--port", "70000").code == 2
    assert "did you mean --host?" in weft("watch", "runs/demo", "--hots", "x").err
    assert weft("watch", "runs/demo", "--host", "192.0.2.1").code in (1, 2)


def test_help_and_completion(weft):
    for command, flags in (("top", ("--once", "--json", "--token")), ("watch", ("--port", "--host", "--token", "--once", "--json"))):
        text = weft(command, "--help").out
        assert "Example:" in text and all(flag in text for flag in flags)
        assert set(flags) <= set(weft("completion", "words", command, "--").out.split())


class Screen:
    """A terminal of a size, with `weft top` on it."""

    def __init__(self, build_dir: pathlib.Path, folder: pathlib.Path, columns: int, rows: int = 24):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")} | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
        command = [str(build_dir / "bin" / "weft"), "top", str(folder)]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment, start_new_session=True)
        self.text = ""

    def wait_for(self, word: str) -> None:
        def seen():
            while select.select([self.ours], [], [], 0)[0]:
                self.text += os.read(self.ours, 65536).decode("utf-8", "replace")
            return word in self.text

        wait_until(seen)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def screen(build_dir, run):
    made = []

    def make(columns: int = 80) -> Screen:
        made.append(Screen(build_dir, run.folder, columns))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.mark.parametrize("leave", ["q", "\x03", "SIGTERM", "SIGINT"])
def test_leaving_gives_the_terminal_back(screen, leave):
    shown = screen()
    shown.wait_for("slower in backward")
    assert "\x1b[?1049h" in shown.text
    if leave.startswith("SIG"):
        shown.process.send_signal(getattr(signal, leave))
    else:
        os.write(shown.ours, leave.encode())
    shown.wait_for("\x1b[?1049l")
    assert shown.process.wait(10) == 0
    assert "\x1b[?25h" in shown.text
    assert termios.tcgetattr(shown.theirs)[3] == shown.before[3]


def test_a_narrow_terminal_is_drawn_within_its_width_and_goes_on(screen, run):
    shown = screen(columns=40)
    shown.wait_for("q leaves")
    for line in re.split(r"\r\n|\x1b\[J|\x1b\[H", re.sub(r"\x1b\[[0-9;?]*[a-zK]", "", shown.text)):
        assert len(line) <= 40, line
    run.start_s = time.time() - 301 * run.step_s
    run.add_rows(1)
    shown.wait_for("301")
