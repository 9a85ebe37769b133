"""Starts `weft watch` for a test and talks to it: plain HTTP over sockets, so that what goes over the wire is what the test says."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import time
import urllib.parse
from typing import Iterator, NamedTuple

DEADLINE_S = 30.0


class Watch(NamedTuple):
    process: subprocess.Popen
    url: str
    port: int
    token: str

    def get(self, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: str | None = None) -> "Reply":
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode("utf-8", "replace"))
        finally:
            connection.close()

    def state(self) -> dict:
        return json.loads(self.get("/api/state", headers={"Authorization": f"Bearer {self.token}"} if self.token else None).body)

    def raw(self, request: bytes) -> bytes:
        """Sends bytes as they are and reads to the end; empty when the connection is closed without an answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as link:
            try:
                link.sendall(request)
            except OSError:
                pass  # it may have answered and closed already
            return read_all(link)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


def read_all(link: socket.socket) -> bytes:
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := link.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def watching(build_dir: pathlib.Path, folder: pathlib.Path, *flags: str) -> Iterator[Watch]:
    command = [str(build_dir / "bin" / "weft"), "watch", str(folder), "--json", *(flags if "--port" in flags else ("--port", "0", *flags))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        said = json.loads(line)
        token = urllib.parse.parse_qs(urllib.parse.urlparse(said["url"]).query).get("token", [""])[0]
        yield Watch(process, said["url"], said["port"], token)
        assert process.poll() is None, f"the server ended by itself: {process.stderr.read()}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def dashboard_url(folder: pathlib.Path) -> str:
    """Address of the live page that the run in this folder serves itself; waits for it."""
    told = folder / "dashboard.json"
    return wait_until(lambda: told.exists() and json.loads(told.read_text())["url"])


def dashboard_port(folder: pathlib.Path) -> int:
    return urllib.parse.urlparse(dashboard_url(folder)).port


def wait_until(condition, deadline_s: float = DEADLINE_S, every_s: float = 0.05):
    """The first true answer of `condition`; fails at the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(every_s)
    raise AssertionError("the deadline passed")
