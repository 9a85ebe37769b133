"""`weft run --hosts` as a user runs it, with fake_ssh.py in place of ssh: every "host" is a shell of this machine, and ends as a remote one would."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from rank_helpers import DEADLINE_S, counted_lines, eventually, is_running, pids_in, shell, start  # noqa: F401

SSH = ["--ssh", f"{sys.executable} {pathlib.Path(__file__).with_name('fake_ssh.py')}"]
NETLAB = pathlib.Path(__file__).resolve().parents[2] / "tools" / "netlab"
ENVIRONMENT = "import json, os; env = dict(os.environ); json.dump(env | {'CWD': os.getcwd()}, open('env.' + env['RANK'], 'w'))"


def on(hosts: str, *flags: str) -> list[str]:
    return ["run", *SSH, "--hosts", hosts, *flags]


def ended(pids: list[int]) -> bool:
    return not [pid for pid in pids if is_running(pid)]


def test_ranks_of_unequal_hosts_know_their_place(weft, tmp_path):
    done = weft(*on("a:2,b,c:3", "-n", "1", "--restarts", "2"), "--", sys.executable, "-c", ENVIRONMENT)
    assert done.code == 0, done.err
    ranks = [json.loads((tmp_path / f"env.{rank}").read_text()) for rank in range(6)]
    places = [tuple(env[name] for name in ("FAKE_HOST", "NODE_RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")) for env in ranks]
    assert places == [("a", "0", "0", "0", "2"), ("a", "0", "0", "1", "2"), ("b", "1", "1", "0", "1"), ("c", "2", "2", "0", "3"), ("c", "2", "2", "1", "3"),
                      ("c", "2", "2", "2", "3")]
    for rank, env in enumerate(ranks):
        assert (env["RANK"], env["WORLD_SIZE"], env["GROUP_WORLD_SIZE"], env["MASTER_ADDR"]) == (str(rank), "6", "3", "a")
        assert (env["TORCHELASTIC_RESTART_COUNT"], env["TORCHELASTIC_MAX_RESTARTS"]) == ("0", "2")
    for name in ("MASTER_PORT", "WEFT_RUN_ID", "TORCHELASTIC_RUN_ID"):
        assert len({env[name] for env in ranks}) == 1 and ranks[0][name], name


def test_folder_and_chosen_variables_travel(weft, tmp_path):
    mine = {"NCCL_DEBUG": "INFO", "GLOO_SOCKET_IFNAME": "eth0", "PYTHONPATH": "/a b", "SECRET_TOKEN": "no", "ASKED_FOR": "yes'\"$\n"}
    done = weft(*on("a,b", "--env", "ASKED_FOR", "--env", "GIVEN=x=y"), "--", sys.executable, "-c", ENVIRONMENT, env=mine)
    assert done.code == 0, done.err
    for rank in range(2):
        env = json.loads((tmp_path / f"env.{rank}").read_text())
        assert env["CWD"] == str(tmp_path)
        assert (env["NCCL_DEBUG"], env["GLOO_SOCKET_IFNAME"], env["PYTHONPATH"]) == ("INFO", "eth0", "/a b")
        assert (env["ASKED_FOR"], env["GIVEN"]) == ("yes'\"$\n", "x=y")
        assert "SECRET_TOKEN" not in env


def test_arguments_arrive_as_they_are(weft, tmp_path):
    words = ["a b", "it's", '"', "$HOME `id` $(id)", "line\nbreak", "\\", "", "*", "--", "-n", "é\udcff"]
    script = "import os, sys; open('words.' + os.environ['RANK'], 'wb').write(b'\\0'.join(os.fsencode(w) for w in sys.argv[1:]))"
    done = weft(*on("a,b"), "--", sys.executable, "-c", script, *words)
    assert done.code == 0, done.err
    for rank in range(2):
        assert (tmp_path / f"words.{rank}").read_bytes() == b"\0".join(os.fsencode(word) for word in words)


def test_the_environment_is_on_no_command_line(weft):
    """Anybody on a host may read the command lines of its processes."""
    done = weft(*on("a", "--env", "TOKEN=s3cret"), "--", sys.executable, "-c",
                "import glob; print(any(b's3c' + b'ret' in open(f, 'rb').read() for f in glob.glob(f'/proc/{__import__(\"os\").getppid()}/cmdline')))")
    assert done.out == "False\n", done.err


def test_lines_have_one_prefix_and_their_own_stream(weft):
    done = weft(*on("a,chatty"), *shell("echo out $FAKE_HOST; echo err >&2; printf 'no end'"))
    assert sorted(done.out.splitlines()) == ["[rank 0] no end", "[rank 0] out a", "[rank 1] no end", "[rank 1] out chatty"]
    assert sorted(done.err.splitlines()) == ["[rank 0] err", "[rank 1] err"]
    assert weft(*on("a,b", "--no-prefix"), *shell("echo same")).out == "same\nsame\n"
    assert weft(*on("a"), *shell("echo alone")).out == "alone\n"


def test_much_output_arrives_whole(weft):
    script = "import os\nfor i in range(3000): print(os.environ['RANK'], i, 'x' * 300)\nprint('y' * (1 << 20))"
    done = weft(*on("a:2,b:2"), "--", sys.executable, "-c", script)
    assert done.code == 0, done.err
    seen, long_bytes = counted_lines(done.out, filler_bytes=300)
    assert seen == {str(rank): 3000 for rank in range(4)} and long_bytes == 4 << 20


def test_a_failure_on_the_second_host_ends_the_first(weft, tmp_path):
    script = 'echo $$ > pid.$RANK; if [ $RANK = 3 ]; then while [ ! -e pid.2 ] || [ ! -e pid.0 ]; do sleep 0.01; done; echo "the reason" >&2; exit 7; fi; exec sleep 1000'
    done = weft(*on("a:2,b:2", "--json", "out.json"), *shell(script))
    assert done.code == 7
    last = done.err[done.err.index("error: "):]
    assert re.fullmatch(r"error: rank 3 of 4 on host b failed: exit code 7\n  what:  pid \d+ ended after .*; the other ranks were ended\n"
                        r"  its last lines on standard error:\n    the reason\n", last), last
    assert "rank 3 on host b failed (exit code 7): ending the other ranks" in done.err
    assert ended([int(f.read_text()) for f in tmp_path.glob("pid.*")])
    [attempt] = json.loads((tmp_path / "out.json").read_text())["attempts"]
    assert attempt["first_failure"] == 3
    assert [(r["rank"], r["host"], r["exit"], r["signal"]) for r in attempt["ranks"]][2:] == [(2, "b", None, signal.SIGTERM), (3, "b", 7, None)]
    assert [r["host"] for r in attempt["ranks"]] == ["a", "a", "b", "b"]


def test_the_others_have_their_grace_period_also_beside_the_rank_that_failed(weft, tmp_path):
    script = ("if [ $RANK = 1 ]; then while [ ! -e ready.0 ] || [ ! -e ready.2 ]; do sleep 0.01; done; exit 5; fi; "
              "trap 'sleep 0.5; touch cleaned.$RANK; exit 0' TERM; touch ready.$RANK; while :; do sleep 0.05; done")
    assert weft(*on("a:2,b"), *shell(script)).code == 5
    assert (tmp_path / "cleaned.0").exists() and (tmp_path / "cleaned.2").exists()


def test_logs_stay_on_their_hosts_and_the_error_comes(weft, tmp_path):
    done = weft(*on("a,b", "--log-dir", "logs"), *shell("echo rank $RANK; [ $RANK = 0 ] && exec sleep 1000; echo broken; exit 3"))
    assert (done.code, done.out) == (3, "")
    assert (tmp_path / "logs" / "rank_1.attempt_0.log").read_text() == "rank 1\nbroken\n"
    assert "  where: logs/rank_1.attempt_0.log on host b\n" in done.err and done.err.endswith("    broken\n")


@pytest.mark.parametrize("hosts, flags, title, words", [
    ("a,unreachable", [], "cannot reach host unreachable", "No route to host"),
    ("a,b", ["--remote-weft", "/no/such/weft"], "there is no weft on host", "--remote-weft PATH"),
    ("a,b", ["--remote-weft", "/bin/false"], "weft did not start on host", "exit code 1"),
])
def test_a_host_that_cannot_be_used_starts_nothing(weft, tmp_path, hosts, flags, title, words):
    done = weft(*on(hosts, *flags, "--restarts", "3"), *shell("touch started"))
    assert done.code == 1
    assert f"error: {title}" in done.err and words in done.err
    assert not (tmp_path / "started").exists() and "again" not in done.err


def test_another_version_is_not_talked_to(weft, tmp_path):
    other = tmp_path / "weft"
    other.write_text("#!/bin/sh\necho '<weft agent 999>'\n")
    other.chmod(0o755)
    done = weft(*on("a", "--remote-weft", str(other)), "--", "true")
    assert done.code == 1 and "weft did not start on host a" in done.err and "<weft agent 999>" in done.err


def test_no_ssh_at_all(weft):
    done = weft("run", "--ssh", "no-such-ssh", "--hosts", "a", "--", "true")
    assert done.code == 2 and "cannot start no-such-ssh" in done.err


def test_a_program_that_a_host_lacks(weft):
    done = weft(*on("a,b"), "--", "./no-such-program")
    assert done.code == 2
    assert re.search(r"error: there is no program \./no-such-program \(on host [ab]\)", done.err), done.err


def test_ctrl_c_while_connecting(start, tmp_path):
    process = start(*SSH, "--hosts", "a,stuck", *shell("touch started"))
    eventually("the fake ssh runs", lambda: b"stuck" in b"".join(cmdlines_below(process.pid)))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert not (tmp_path / "started").exists()


def cmdlines_below(parent: int) -> list[bytes]:
    out = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                out.append((folder / "cmdline").read_bytes())
        except (OSError, IndexError):
            continue
    return out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_ranks_of_all_hosts(start, tmp_path, number):
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 0' {name}; echo $$ > pid.$RANK; while :; do sleep 0.05; done"
    process = start(*SSH, "--hosts", "a:2,b", *shell(script))
    pids = pids_in(tmp_path, 3)
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number, err
    assert sorted(out.splitlines()) == [f"[rank {rank}] got {name}" for rank in range(3)]
    assert f"{number.name}: passed on to the ranks of all hosts" in err
    assert ended(pids)


def test_a_second_signal_kills_at_once(start, tmp_path):
    process = start(*SSH, "--hosts", "a,b", "--grace", "1h", *shell("trap 'echo > asked.$RANK' INT; echo $$ > pid.$RANK; while :; do sleep 0.05; done"))
    pids = pids_in(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    eventually("both ranks were asked", lambda: len(list(tmp_path.glob("asked.*"))) == 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert ended(pids)


def test_ranks_that_ignore_sigterm_are_killed_after_the_grace_period(weft, tmp_path):
    script = "echo $$ > pid.$RANK; if [ $RANK = 0 ]; then while [ ! -e ready ]; do sleep 0.01; done; exit 3; fi; trap '' TERM; touch ready; while :; do sleep 1000; done"
    done = weft(*on("a,b", "--grace", "300ms"), *shell(script))
    assert done.code == 3 and "[host b] [weft] killing the ranks that still run after 300 ms" in done.err
    assert ended([int(f.read_text()) for f in tmp_path.glob("pid.*")])


def test_nothing_is_left_when_the_starter_is_killed(start, tmp_path):
    script = "trap '' HUP; echo $$ > pid.$RANK; echo $PPID > pid.agent.$RANK; setsid sleep 1000 & echo $! > pid.child.$RANK; wait; sleep 1000"
    process = start(*SSH, "--hosts", "a:2,b", "--grace", "1s", *shell(script))
    pids = pids_in(tmp_path, 9)
    process.kill()
    process.wait(timeout=DEADLINE_S)
    eventually("ranks, agents and grandchildren are gone", lambda: ended(pids))


def test_a_lost_connection_ends_all(start, tmp_path):
    process = start(*SSH, "--hosts", "a,b", "--grace", "1s", *shell("echo $$ > pid.$RANK; exec sleep 1000"))
    pids = pids_in(tmp_path, 2)
    [of_b] = [pid for pid in children_of(process.pid) if b"\0b\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(of_b, signal.SIGKILL)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert "error: host b was lost" in err and "killed by SIGKILL" in err
    eventually("the ranks are gone", lambda: ended(pids))


def children_of(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in listed.split()]


def test_somebody_ends_an_agent(start, tmp_path):
    process = start(*SSH, "--hosts", "a,b", *shell("echo $$ > pid.$RANK; echo $PPID > agent.$RANK; exec sleep 1000"))
    pids = pids_in(tmp_path, 2)
    os.kill(int((tmp_path / "agent.1").read_text()), signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1 and "error: somebody ended the ranks of host b" in err
    assert ended(pids)


def test_restarts_begin_anew_on_all_hosts(weft, tmp_path):
    script = 'echo "$TORCHELASTIC_RESTART_COUNT $MASTER_PORT" >> counts.$RANK; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { [ $RANK = 1 ] && exit 5; exec sleep 1000; }'
    done = weft(*on("a,b", "--restarts", "3", "--json", "out.json"), *shell(script))
    assert done.code == 0, done.err
    assert "starting all ranks again in 1 s (restart 1 of 3)" in done.err and "in attempt 1 of 4" in done.err
    out = json.loads((tmp_path / "out.json").read_text())
    assert [a["first_failure"] for a in out["attempts"]] == [1, None]
    last = [(tmp_path / f"counts.{rank}").read_text().splitlines()[-1] for rank in range(2)]
    assert last[0] == last[1] and last[0].startswith("1 ")


def test_a_host_that_stays_away_is_left_out_where_enough_ranks_remain(weft, tmp_path):
    script = 'if [ $WORLD_SIZE = 3 ]; then touch gone; [ $RANK = 2 ] && exit 5; exec sleep 1000; fi; echo "$WORLD_SIZE $WEFT_RESUME" > world.$RANK'
    done = weft(*on("a:2,leaving:1", "--restarts", "3", "--resume", "--min-ranks", "2"), *shell(script))
    assert done.code == 0, done.err
    assert "going on without leaving: 2 ranks" in done.err
    assert [(tmp_path / f"world.{rank}").read_text() for rank in range(2)] == ["2 1\n"] * 2


def test_a_port_in_use_is_refused(weft, tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = weft(*on("a,b", "--master-port", str(port)), *shell("exec sleep 1000"))
    assert done.code == 2 and f"rank 0 cannot listen on port {port} (on host a)" in done.err


def test_a_first_host_that_nobody_else_can_reach_is_refused(weft):
    done = weft(*on("localhost,b"), "--", "true")
    assert done.code == 2 and "the other hosts cannot reach the first one" in done.err
    assert weft(*on("localhost"), "--", "true").code == 0


def test_a_hostfile(weft, tmp_path):
    (tmp_path / "hosts").write_text("# two\na slots=2\nb:1\n")
    done = weft("run", *SSH, "--hostfile", "hosts", *shell("echo $FAKE_HOST"))
    assert sorted(done.out.splitlines()) == ["[rank 0] a", "[rank 1] a", "[rank 2] b"]
    (tmp_path / "hosts").write_text("a\nb slots=none\n")
    refused = weft("run", *SSH, "--hostfile", "hosts", "--", "true")
    assert refused.code == 2 and "where: hosts:2" in refused.err


@pytest.mark.parametrize("words, code", [(b"", 0), (b"hello\n", 1)])
def test_an_agent_that_nobody_talks_to_ends(build_dir, words, code):
    done = subprocess.run([build_dir / "bin" / "weft", "run", "--agent"], input=words, capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == code and done.stdout.startswith(b"<weft agent 2>\nh ")


def test_through_real_network_namespaces(build_dir, tmp_path):
    can = subprocess.run([NETLAB, "check"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if can.returncode != 0:
        pytest.skip(f"no network lab here: {can.stderr.strip()}")
    script = tmp_path / "meet.py"
    script.write_text("""
import os, socket
rank, world, where = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", where[1])) as server:
        server.settimeout(30)
        names = sorted(server.accept()[0].makefile().readline().strip() for _ in range(world - 1))
    print(socket.gethostname(), "met", *names)
else:
    import time
    deadline = time.monotonic() + 30
    while True:
        try:
            peer = socket.create_connection(where, timeout=10)
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    peer.sendall(f"{socket.gethostname()}/{os.environ['LOCAL_RANK']}\\n".encode())
""")
    weft = build_dir / "bin" / "weft"
    inner = f"exec '{weft}' run --ssh '{NETLAB} ssh' --hosts host0:1,host1:2,host2:1 -- '{sys.executable}' '{script}'"
    done = subprocess.run([NETLAB, "with", "3", "--rate", "1gbit", "--", "sh", "-c", inner], cwd=tmp_path, capture_output=True, text=True, timeout=2 * DEADLINE_S,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[rank 0] host0 met host1/0 host1/1 host2/0\n"


def test_help_has_the_flags(weft):
    text = weft("run", "--help").out
    for flag in ("--hosts", "--hostfile", "--env", "--ssh", "--remote-weft", "slots=4"):
        assert flag in text, flag
    assert "--agent" not in text
