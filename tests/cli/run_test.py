"""`weft run` as a user runs it: ranks, their output, failures, signals, and nothing left behind.

The ranks are small shell and Python programs. Where one process must wait for another they meet at a fifo or a file, with a deadline.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys

import pytest
from rank_helpers import DEADLINE_S, counted_lines, eventually, is_running, pids_in, shell, start  # noqa: F401


def test_every_rank_has_torchruns_environment(weft, tmp_path):
    script = "import json, os; env = dict(os.environ); json.dump(env, open('env.' + env['RANK'], 'w'))"
    done = weft("run", "-n", "3", "--restarts", "2", "--", sys.executable, "-c", script, env={"OMP_NUM_THREADS": "", "WEFT_RUN_ID": ""})
    assert done.code == 0, done.err
    ranks = [json.loads((tmp_path / f"env.{rank}").read_text()) for rank in range(3)]
    for rank, env in enumerate(ranks):
        assert (env["RANK"], env["LOCAL_RANK"]) == (str(rank), str(rank))
        assert (env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == ("3", "3")
        assert (env["GROUP_RANK"], env["NODE_RANK"], env["MASTER_ADDR"]) == ("0", "0", "127.0.0.1")
        assert (env["TORCHELASTIC_RESTART_COUNT"], env["TORCHELASTIC_MAX_RESTARTS"]) == ("0", "2")
        assert env["OMP_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 3))
        assert env["TORCHELASTIC_RUN_ID"] == env["WEFT_RUN_ID"] != ""
    assert len({env["MASTER_PORT"] for env in ranks}) == 1 and 1023 < int(ranks[0]["MASTER_PORT"]) < 65536
    assert len({env["WEFT_RUN_ID"] for env in ranks}) == 1


def test_ranks_of_two_hosts_count_through(weft):
    hosts = ["--nnodes", "2", "--node-rank", "1", "--master", "node0:1234"]
    done = weft("run", "-n", "2", *hosts, *shell("echo $RANK/$WORLD_SIZE $NODE_RANK $MASTER_ADDR:$MASTER_PORT"))
    assert sorted(done.out.splitlines()) == ["[rank 2] 2/4 1 node0:1234", "[rank 3] 3/4 1 node0:1234"]


def test_cores_are_divided(weft):
    cores = len(os.sched_getaffinity(0))
    done = weft("run", "-n", str(cores), "--bind", "cores", "--no-prefix", "--", "grep", "Cpus_allowed_list", "/proc/self/status")
    assert sorted(int(line.split()[1]) for line in done.out.splitlines()) == sorted(os.sched_getaffinity(0))
    refused = weft("run", "-n", str(cores + 1), "--bind", "cores", "--", "true")
    assert refused.code == 2 and "more ranks than cores" in refused.err


def test_lines_have_prefixes_and_their_own_stream(weft):
    done = weft("run", "-n", "2", *shell("echo out; echo err >&2; printf 'no end'"))
    assert sorted(done.out.splitlines()) == ["[rank 0] no end", "[rank 0] out", "[rank 1] no end", "[rank 1] out"]
    assert sorted(done.err.splitlines()) == ["[rank 0] err", "[rank 1] err"]
    assert done.out.endswith("\n")


def test_one_rank_alone_has_no_prefix(weft):
    done = weft("run", *shell("echo out; echo err >&2"))
    assert (done.code, done.out, done.err) == (0, "out\n", "err\n")


def test_no_prefix(weft):
    assert weft("run", "-n", "2", "--no-prefix", *shell("echo same")).out == "same\nsame\n"


def test_prefixes_are_coloured_only_on_a_terminal(build_dir):
    ours, theirs = pty.openpty()
    command = [str(build_dir / "bin" / "weft"), "run", "-n", "2", "--", "echo", "hello"]
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env={**os.environ, "TERM": "xterm", "NO_COLOR": ""})
        os.close(theirs)
        process.communicate(timeout=DEADLINE_S)
        text = terminal.read(4096).decode()
    assert "\x1b[36m[rank 0]\x1b[0m hello" in text and "\x1b[33m[rank 1]\x1b[0m hello" in text


def test_bytes_that_are_no_text_do_no_harm(weft):
    done = weft("run", "-n", "2", *shell(r"printf 'a\000\033[2Jb\377\n'"))
    assert done.out.splitlines()[0].endswith(r"a\x00\x1b[2Jb\xff")


def test_much_output_of_many_ranks_arrives_whole(weft):
    script = "import os\nenv = dict(os.environ)\nfor i in range(2000): print(env['RANK'], i, 'x' * 200)\nprint('y' * (1 << 20))"
    done = weft("run", "-n", "16", "--", sys.executable, "-c", script)
    assert done.code == 0, done.err
    seen, long_bytes = counted_lines(done.out, filler_bytes=200)
    assert seen == {str(rank): 2000 for rank in range(16)}
    assert long_bytes == 16 << 20


def test_logs_go_to_files(weft, tmp_path):
    done = weft("run", "-n", "2", "--log-dir", "logs", *shell("echo out $RANK; echo err >&2"))
    assert done.code == 0 and done.out == ""
    assert "what the ranks printed is in logs" in done.err
    assert (tmp_path / "logs" / "rank_1.attempt_0.log").read_text() == "out 1\nerr\n"


def test_a_reader_that_leaves_does_not_stop_the_ranks(build_dir, tmp_path):
    command = f"'{build_dir}/bin/weft' run -n 2 -- /bin/sh -c 'seq 100000; touch done.$RANK' | head -n 1"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL)
    eventually("both ranks finish", lambda: len(list(tmp_path.glob("done.*"))) == 2)


def test_standard_input_goes_to_rank_0(start):
    process = start("-n", "2", *shell("cat"), stdin=subprocess.PIPE)
    out, _ = process.communicate("words\n", timeout=DEADLINE_S)
    assert out == "[rank 0] words\n"


def test_the_first_failure_gives_the_code_and_is_shown_last(weft):
    done = weft("run", "-n", "4", *shell('if [ $RANK = 2 ]; then echo "the reason" >&2; exit 7; fi; exec sleep 1000'))
    assert done.code == 7
    last = done.err[done.err.index("error: "):]
    assert re.fullmatch(r"error: rank 2 of 4 failed: exit code 7\n  what:  pid \d+ ended after .*; the other ranks were ended\n"
                        r"  its last lines on standard error:\n    the reason\n", last), last
    assert "rank 2 failed (exit code 7): ending the other ranks in 2.0 s\n" in done.err


def test_a_rank_killed_by_a_signal(weft):
    done = weft("run", "-n", "2", *shell("[ $RANK = 0 ] && exec sleep 1000; kill -KILL $$"))
    assert done.code == 128 + signal.SIGKILL
    assert "rank 1 of 2 failed: killed by SIGKILL: often the kernel's out-of-memory killer" in done.err


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace_period(weft, tmp_path):
    os.mkfifo(tmp_path / "ready")
    script = "if [ $RANK = 0 ]; then cat ready; exit 3; fi; trap '' TERM; : > ready; while :; do sleep 1000; done"
    done = weft("run", "-n", "2", "--grace", "300ms", "--json", "out.json", *shell(script))
    assert done.code == 3 and "killing the ranks that still run after 300 ms" in done.err
    out = json.loads((tmp_path / "out.json").read_text())
    assert (out["schema"], out["world"], out["exit"]) == (1, 2, 3)
    [attempt] = out["attempts"]
    assert attempt["first_failure"] == 0
    first, second = attempt["ranks"]
    assert (first["rank"], first["exit"], first["signal"]) == (0, 3, None)
    assert (second["rank"], second["exit"], second["signal"]) == (1, None, signal.SIGKILL)
    assert second["seconds"] >= 0.3 and second["pid"] > 0


def test_grandchildren_are_gone_when_it_returns(weft, tmp_path):
    script = "setsid sleep 1000 & echo $! > pid.$RANK.a; sleep 1000 & echo $! > pid.$RANK.b; exit 0"
    done = weft("run", "-n", "2", *shell(script))
    assert done.code == 0, done.err
    assert not [pid for pid in pids_in(tmp_path, 4) if is_running(pid)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on(start, tmp_path, number):
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 0' {name}; echo $$ > pid.$RANK; while :; do sleep 0.05; done"
    process = start("-n", "2", *shell(script))
    pids = pids_in(tmp_path, 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number, err
    assert sorted(out.splitlines()) == [f"[rank 0] got {name}", f"[rank 1] got {name}"]
    assert f"{number.name}: passed on to the ranks" in err
    assert not [pid for pid in pids if is_running(pid)]


def test_a_second_signal_kills_at_once(start, tmp_path):
    process = start("-n", "2", "--grace", "1h", *shell("trap 'echo $$ > asked.$RANK' INT; echo $$ > pid.$RANK; while :; do sleep 0.05; done"))
    pids = pids_in(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    eventually("both ranks were asked", lambda: len(list(tmp_path.glob("asked.*"))) == 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert not [pid for pid in pids if is_running(pid)]


def test_ranks_die_with_a_killed_launcher(start, tmp_path):
    process = start("-n", "3", *shell("echo $$ > pid.$RANK; exec sleep 1000"))
    pids = pids_in(tmp_path, 3)
    process.kill()
    process.wait(timeout=DEADLINE_S)
    eventually("the ranks are gone", lambda: not [pid for pid in pids if is_running(pid)])


def test_nohup_stays_in_force(start, tmp_path):
    process = start("-n", "2", *shell("echo $$ > pid.$RANK; while [ ! -e go ]; do sleep 0.05; done"),
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    pids_in(tmp_path, 2)
    process.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


def test_restarts_count_and_say_so(weft, tmp_path):
    script = 'echo "$TORCHELASTIC_RESTART_COUNT" >> counts.$RANK; [ $TORCHELASTIC_RESTART_COUNT = 1 ]'
    done = weft("run", "-n", "2", "--restarts", "3", "--json", "out.json", *shell(script))
    assert done.code == 0, done.err
    assert "starting all ranks again in 1 s (restart 1 of 3)" in done.err
    assert "in attempt 1 of 4" in done.err
    out = json.loads((tmp_path / "out.json").read_text())
    assert [a["first_failure"] is None for a in out["attempts"]] == [False, True]


def test_the_last_attempt_decides(weft):
    done = weft("run", "-n", "1", "--restarts", "1", *shell("exit $((5 + TORCHELASTIC_RESTART_COUNT))"))
    assert done.code == 6
    assert done.err.rstrip().splitlines()[-2].endswith("rank 0 of 1 failed: exit code 6")


def test_wrong_usage_is_not_tried_again(weft):
    done = weft("run", "-n", "2", "--restarts", "3", *shell("exit 2"))
    assert done.code == 2 and "not started again" in done.err


def test_ctrl_c_between_attempts_ends_it(start):
    process = start("--restarts", "9", *shell("exit 1"))
    for line in process.stderr:
        if "again in 2 s" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGINT


def test_a_port_in_use_is_refused(weft, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = weft("run", "-n", "2", "--master-port", str(port), *shell("touch started"))
    assert done.code == 2 and f"rank 0 cannot listen on port {port}" in done.err
    assert not (tmp_path / "started").exists()


BAD_PROGRAMS = [
    ("no-such-program", "there is no program no-such-program", "in no folder of PATH"),
    ("./missing", "there is no program ./missing", "check the spelling"),
    ("./plain.py", "the program ./plain.py cannot be run", "python3 ./plain.py"),
    ("./no_shell", "the program ./no_shell cannot be run", "#!/bin/sh"),
    ("./lost", "there is no program ./lost", "name its interpreter"),
]


@pytest.mark.parametrize("program, title, words", BAD_PROGRAMS, ids=[c[0] for c in BAD_PROGRAMS])
def test_a_program_that_cannot_be_run(weft, tmp_path, program, title, words):
    for name, text, mode in (("plain.py", "print()\n", 0o644), ("no_shell", "hello\n", 0o755), ("lost", "#!/no/such/shell\n", 0o755)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    done = weft("run", "-n", "2", "--", program)
    assert done.code == 2
    assert f"error: {title}" in done.err and words in done.err


def test_a_warning_inside_a_rank_of_slurm(weft):
    done = weft("run", "-n", "2", "--", "true", env={"SLURM_PROCID": "1"})
    assert done.code == 0 and "[WARN] Slurm started this process as a rank" in done.err


def test_help_has_every_flag_and_examples(weft):
    text = weft("run", "--help").out
    for flag in ("-n,", "--restarts", "--grace", "--log-dir", "--no-prefix", "--threads", "--bind", "--master-port", "--json", "--nnodes", "--node-rank",
                 "--master", "Example:", "Exit codes:"):
        assert flag in text, flag
