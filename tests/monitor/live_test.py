"""`weft watch` as strangers, browsers and scrapers meet it: every path, hostile requests, many connections, tokens, events."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fake_run import FakeRun  # noqa: E402
from live_helpers import DEADLINE_S, read_all, wait_until, watching  # noqa: E402


@pytest.fixture
def run(tmp_path):
    return FakeRun(tmp_path / "demo", ranks=4, slow=2, start_s=time.time() - 60).write_all(300)


@pytest.fixture
def server(build_dir, run):
    with watching(build_dir, run.folder) as watch:
        yield watch


def test_every_path(server, run):
    (run.folder / "report.html").write_text("<p>report</p>")
    assert "weft live" in server.get("/").body
    state = server.state()
    assert (state["schema"], state["name"], state["status"], state["step"], state["world"]) == (1, "demo", "running", 300, 4)
    assert [r["health"] for r in state["ranks"]] == ["good", "good", "slow", "waiting"]
    assert any(line["tone"] == "warning" for line in state["log"])
    series = json.loads(server.get("/api/series?from=290").body)
    assert series["step"] == list(range(290, 301)) and len(series["columns"]["loss"]["mean"]) == 11
    assert server.get("/report").body == "<p>report</p>"
    assert server.get("/", method="HEAD").body == ""
    assert server.get("/events", method="HEAD").status == 200


def test_long_runs_come_thinned(build_dir, tmp_path):
    long_run = FakeRun(tmp_path / "long", start_s=time.time() - 20_000)
    long_run.write_all(100_000)
    with watching(build_dir, long_run.folder) as server:
        series = json.loads(server.get("/api/series").body)
        assert 1000 <= len(series["step"]) <= 2048 and series["step"][-1] == 100_000
        loss = series["columns"]["loss"]
        assert all(low <= mean <= high for low, mean, high in zip(loss["min"], loss["mean"], loss["max"]))


def test_prometheus_can_read_it(server, run):
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed (tools/setup)")
    run.publish("result.json", {"schema": 1, "status": "running", "name": 'na"me\\with\nall', "world": 4})
    reply = server.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in parser.text_string_to_metric_families(reply.body)}
    assert families["weft_step"].samples[0].value == 300
    assert families["weft_run_info"].samples[0].labels["run"] == 'na"me\\with\nall'
    assert {s.labels["rank"] for s in families["weft_rank_step_seconds"].samples} == {"0", "1", "2", "3"}
    assert families["weft_samples"].type == "counter"
    assert all(family.documentation and name.startswith("weft_") for name, family in families.items())
    slow = [s for s in families["weft_rank_health"].samples if s.labels["state"] == "slow" and s.value == 1]
    assert [s.labels["rank"] for s in slow] == ["2"]


METHODS = ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"]


@pytest.mark.parametrize("method", METHODS)
def test_only_get_and_head(server, method):
    assert server.raw(f"{method} /api/state HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc".encode()).startswith(b"HTTP/1.1 405 ")


TRAVERSALS = ["/../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/report/../../etc/passwd", "/metrics.jsonl", "/result.json",
              "/report%00.html", "/api/../../../etc/passwd", "/....//etc/passwd", "/\\..\\..\\etc\\passwd", "/file:///etc/passwd"]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_to_the_disk(server, path):
    answer = server.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert answer.split(b" ")[1] in (b"404", b"400") and b"root:" not in answer


MALFORMED = {
    "nothing": b"\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a wrong version": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "binary": bytes(range(256)) * 8,
    "zeros": b"\0" * 5000,
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n",
    "a long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(100_000)) + b"\r\n",
    "a huge body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 200_000,
    "a negative length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    "broken chunks": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n",
    "a bad escape": b"GET /%zz%1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a bad range": b"GET / HTTP/1.1\r\nHost: localhost\r\nRange: bytes=9-1,-,x\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_and_huge_requests_do_no_harm(server, request_bytes):
    answer = server.raw(request_bytes)
    assert answer == b"" or answer.startswith(b"HTTP/1.")
    assert server.get("/api/state").status == 200


def test_another_name_for_this_machine_is_refused(server):
    assert server.get("/api/state", headers={"Host": "evil.example"}).status == 403
    assert server.get("/api/state", headers={"Host": f"localhost:{server.port}"}).status == 200


def test_tokens(build_dir, run):
    with watching(build_dir, run.folder, "--host", "0.0.0.0") as server:
        assert len(server.token) == 32
        for path in ("/", "/api/state", "/metrics", "/events", "/nowhere"):
            assert server.get(path).status == 401
            assert server.get(path + "?token=" + server.token[:-1]).status == 401
            assert server.get(path + "?token=" + server.token + "x").status == 401
        page = server.get("/?token=" + server.token, headers={"Host": f"node:{server.port}"})
        cookie = page.headers["set-cookie"]
        assert page.status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert server.get("/api/state", headers={"Host": f"node:{server.port}", "Cookie": cookie.split(";")[0]}).status == 200
        assert server.get("/metrics", headers={"Authorization": f"Bearer {server.token}"}).status == 200
        assert server.get("/metrics", headers={"Authorization": "Bearer wrong"}).status == 401


def events_link(server) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
    link.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return link


def read_until(link: socket.socket, word: bytes) -> bytes:
    got = b""
    while word not in got:
        piece = link.recv(65536)
        assert piece, got[-500:]
        got += piece
    return got


def test_a_new_row_comes_as_an_event(server, run):
    with events_link(server) as link:
        head = read_until(link, b'"step":300')
        assert b"text/event-stream" in head and b"event: state\ndata: " in head
        run.add_rows(1)
        read_until(link, b'"step":301')


def test_a_resumed_run_takes_rows_back(server, run):
    before = server.state()
    lines = (run.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    run.step = 100
    with open(run.folder / "metrics.jsonl", "r+") as metrics:
        metrics.truncate(sum(map(len, lines[:100])))
    run.add_rows(3)
    after = wait_until(lambda: (s := server.state()) and s["step"] == 103 and s)
    assert after["epoch"] > before["epoch"] and after["num_rows"] == 103


def test_pages_beyond_the_limit_are_turned_away(server):
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            link = stack.enter_context(events_link(server))
            read_until(link, b"event: state")
        with events_link(server) as one_more:
            assert read_all(one_more).startswith(b"HTTP/1.1 503 ")
        assert server.get("/api/state").status == 200
    wait_until(lambda: server.get("/events", method="HEAD").status == 200)

    def free_again():
        with events_link(server) as link:
            return b" 200 " in link.recv(64)

    wait_until(free_again)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_thousand_connections_opened_and_dropped(server):
    server.get("/api/state")
    before = open_files(server.process.pid)
    for i in range(1000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as link:
            if i % 3 == 1:
                link.sendall(b"GET / HT")
            if i % 3 == 2:
                link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wait_until(lambda: server.get("/api/state").status == 200)
    wait_until(lambda: open_files(server.process.pid) <= before + 2)
    threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
    assert threads <= 70


def test_clients_that_never_finish_are_sent_away(server):
    """More of them than there are places: the first to come hold them until their deadline, and not longer."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)) for _ in range(100)]
        for i, link in enumerate(links):
            with contextlib.suppress(OSError):
                link.sendall(b"GET / HTTP/1.1\r\n" if i % 2 else b"")
        wait_until(lambda: server.get("/api/state").status == 200, 20)
        assert open_files(server.process.pid) < 100


def test_a_trickle_does_not_hold_a_place(server):
    """A byte now and then must not reset the deadline of a request."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as link:
        started = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - started < 20:
                link.sendall(b"G")
                time.sleep(0.2)
        assert time.monotonic() - started < 12


def test_a_reader_that_stops_reading_is_let_go(server, run):
    """A page that was put to sleep with its connection open. What it asked for is more than the system keeps for it."""
    (run.folder / "report.html").write_bytes(b"x" * (32 << 20))
    before = open_files(server.process.pid)
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", server.port))
        link.sendall(b"GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert link.recv(12) == b"HTTP/1.1 200"
        assert open_files(server.process.pid) > before
        wait_until(lambda: open_files(server.process.pid) <= before, 20)


def test_a_port_in_use_is_said(build_dir, run, server):
    command = [str(build_dir / "bin" / "weft"), "watch", str(run.folder), "--port", str(server.port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        first, second = process.stdout.readline(), process.stdout.readline()
        assert first.startswith(f"port {server.port} is in use, so it is ")
        assert f"http://127.0.0.1:{first.split()[-1]}/" in second
    finally:
        process.terminate()
        assert process.wait(10) == 0


def test_the_server_does_not_hold_up_its_machine(server):
    """Its threads have the lowest priority."""
    server.get("/api/state")
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
    nice = sorted(int((task / "stat").read_text().rsplit(")", 1)[1].split()[16]) for task in tasks.iterdir())
    assert nice[-1] == 19
