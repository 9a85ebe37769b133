"""tools/netlab: what it refuses, and, where this machine may have network namespaces, what its labs do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tree import REPO, Outcome, run

NETLAB = REPO / "tools/netlab"
DEADLINE_S = 60.0


def netlab(*words: object) -> Outcome:
    return run(sys.executable, "-B", NETLAB, *words)


def namespaces(lab: str) -> list[str]:
    """Of one lab: others may come and go meanwhile."""
    return [path.name for path in Path("/run/netns").glob(f"weft-{lab}-*")]


@pytest.fixture(scope="module")
def permitted() -> None:
    outcome = netlab("check")
    if outcome.code != 0:
        pytest.skip(f"no network lab here: {' '.join(outcome.lines)}")


def own_name() -> str:
    return f"p{os.getpid() % 100000}"


@pytest.fixture
def lab(permitted):
    """A name of its own for the lab of one test, which is gone afterwards."""
    name = own_name()
    yield lambda *words: netlab("--lab", name, *words)
    netlab("--lab", name, "down")
    assert namespaces(name) == []
    assert not list(Path("/etc/netns").glob(f"weft-{name}-*"))


def mbit(outcome: Outcome) -> float:
    assert outcome.code == 0, outcome.lines
    return json.loads(outcome.lines[-1])["bits_per_second"] / 1e6


@pytest.mark.parametrize("words, reason", [
    (["up"], "required: N"),
    (["up", "0"], "'0' is no number of hosts from 1 to 200"),
    (["up", "2", "--rate", "fast"], "'fast' is no amount such as 1gbit"),
    (["up", "2", "--rate", "0mbit"], "'0mbit' is no amount such as 1gbit"),
    (["up", "2", "--delay", "1"], "'1' is no amount such as 0.1ms"),
    (["run", "host0"], "put the command after --"),
    (["down", "--", "x"], "down takes no command"),
    (["--lab", "a-b", "down"], "'a-b' is no name for a lab"),
    (["fly"], "invalid choice: 'fly'"),
])
def test_wrong_usage_is_refused(words, reason):
    outcome = netlab(*words)
    assert outcome.code == 2 and reason in "\n".join(outcome.lines)


def test_help_shows_an_example():
    outcome = netlab("--help")
    assert outcome.code == 0 and any("netlab with 2 --rate 1gbit --" in line for line in outcome.lines)


def test_without_iproute2_it_says_what_to_install(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: the check for root comes first")
    outcome = run("env", "-i", f"PATH={tmp_path}", sys.executable, "-B", NETLAB, "check")
    assert outcome == (1, ["error: there is no ip here", "  do:    apt-get install iproute2"])


def test_without_root_it_says_so():
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, to become nobody")
    # Through standard input: nobody need not be able to read the checkout.
    outcome = run("sh", "-c", f"setpriv --reuid 65534 --clear-groups /usr/bin/python3 -B - up 2 < '{NETLAB}'")
    assert outcome.code == 1 and outcome.lines[0] == "error: network namespaces need root"


def test_hosts_have_names_addresses_and_each_other(lab):
    assert lab("up", "3") == (0, ["host0 10.77.0.1", "host1 10.77.0.2", "host2 10.77.0.3"])
    assert lab("hosts").lines == ["host0 10.77.0.1", "host1 10.77.0.2", "host2 10.77.0.3"]
    assert lab("run", "1", "--", "sh", "-c", "hostname; getent hosts host2") == (0, ["host1", "10.77.0.3       host2"])
    assert sorted(lab("run", "--", "hostname").lines) == ["[host0] host0", "[host1] host1", "[host2] host2"]
    assert lab("ssh", "host2", 'echo "$0 a  b"; hostname').lines == ["sh a  b", "host2"]
    assert lab("run", "host0", "--", "sh", "-c", "exit 7").code == 7
    assert lab("run", "--", "sh", "-c", "[ $(hostname) = host1 ] && exit 5 || exit 0").code == 5


def test_what_is_not_there_is_refused(lab):
    assert lab("run", "host0", "--", "true").code == 2
    assert lab("up", "2").code == 0
    twice = lab("up", "2")
    assert twice.code == 2 and "already" in twice.lines[0]
    other = lab("cut", "5")
    assert other.code == 2 and other.lines == [other.lines[0], "  do:    one of host0, host1"]


def test_links_are_as_slow_as_asked(lab):
    lab("up", "2", "--rate", "100mbit")
    assert 60 < mbit(lab("rate", "--json")) < 105
    lab("shape", "host1", "--rate", "20mbit")
    assert 10 < mbit(lab("rate", "0", "1", "--json")) < 22
    assert 10 < mbit(lab("rate", "1", "0", "--json")) < 22
    lab("shape")
    assert mbit(lab("rate", "--json")) > 150


def test_packets_take_as_long_as_asked(lab):
    outcome = lab("up", "2", "--delay", "20ms")
    if outcome.code != 0:
        assert "this kernel cannot delay packets" in outcome.lines[0]
        pytest.skip("the kernel has no netem")
    ping = lab("run", "host0", "--", sys.executable, "-c", CONNECT)
    assert ping.code == 0 and 0.04 <= float(ping.lines[-1]) < 10


CONNECT = """
import socket, time
begin = time.monotonic()
try:
    socket.create_connection(("host1", 9), timeout=10)
except ConnectionRefusedError:
    print(time.monotonic() - begin)
"""


def test_a_cut_cable_carries_nothing_until_it_is_healed(lab):
    lab("up", "2")
    connect = ("run", "host0", "--", sys.executable, "-c", CONNECT.replace("timeout=10", "timeout=1"))
    assert lab(*connect).code == 0
    lab("cut", "host1")
    assert lab(*connect).code == 1
    lab("heal", "host1")
    assert lab(*connect).code == 0


def test_down_ends_what_runs_there_and_may_be_repeated(lab, tmp_path):
    lab("up", "2")
    process = subprocess.Popen(["ip", "netns", "exec", f"weft-{own_name()}-host1", "sh", "-c", f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 1; done"])
    try:
        wait_until("it runs", (tmp_path / "up").exists)
        assert lab("down") == (0, [])
        assert process.wait(timeout=DEADLINE_S) == -signal.SIGKILL
        assert lab("down") == (0, [])
    finally:
        process.kill()
        process.wait()


def test_two_labs_do_not_see_each_other(lab):
    lab("up", "2")
    outcome = netlab("with", "2", "--", sys.executable, NETLAB, "list")
    assert outcome.code == 0 and len(outcome.lines) >= 2
    inner = f"'{NETLAB}' run host0 -- {sys.executable} -c 'import socket; socket.create_connection((\"10.77.0.3\", 9), timeout=1)'"
    lab("down")
    lab("up", "3")
    assert netlab("with", "2", "--", "sh", "-c", inner).code == 1


def test_with_removes_the_lab_and_keeps_the_code(permitted):
    outcome = netlab("with", "2", "--", "sh", "-c", "echo $WEFT_NETLAB; exit 3")
    assert outcome.code == 3 and re.fullmatch(r"t[0-9a-f]{6}", outcome.lines[0])
    missing = netlab("with", "2", "--", "/no/such/program")
    assert missing.code == 2 and "cannot run /no/such/program" in missing.lines[0]
    assert namespaces(outcome.lines[0]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_with_removes_the_lab_after_a_signal(permitted, tmp_path, number):
    script = f"echo $WEFT_NETLAB > {tmp_path}/name; '{NETLAB}' run host1 -- sh -c 'touch {tmp_path}/up; exec sleep 1000'"
    process = subprocess.Popen([sys.executable, "-B", NETLAB, "with", "2", "--", "sh", "-c", script])
    wait_until("the lab is up", (tmp_path / "up").exists)
    name = (tmp_path / "name").read_text().strip()
    assert len(namespaces(name)) == 3
    process.send_signal(number)
    assert process.wait(timeout=DEADLINE_S) == 128 + number
    assert namespaces(name) == []


def wait_until(what: str, condition) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
