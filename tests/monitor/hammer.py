"""Clients that mean a live page ill, or are only clumsy: connections dropped, half open, malformed, huge, with wrong tokens, up the tree."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time

REQUESTS = {
    "nothing": b"",
    "half a line": b"GET / HT",
    "a whole request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "a huge body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 20_000,
    "up the tree": b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a wrong token": b"GET /api/state?token=0123456789abcdef HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the numbers": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the events": b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
}


class Hammer:
    """Opens `per_s` connections a second from the start until end(), and keeps the last `held` of them open. Has a thread of its own."""

    def __init__(self, port: int, per_s: float, held: int = 20, seed: int = 0):
        self.opened = 0
        self.refused = 0
        self._port, self._per_s, self._held = port, per_s, held
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hammer, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)

    def _hammer(self) -> None:
        links: list[socket.socket] = []
        next_s = time.monotonic()
        while not self._over.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + 1 / self._per_s, time.monotonic() - 1)  # what was missed for a second is not made up for
            if link := self._one():
                links.append(link)
            while len(links) > self._held:
                links.pop(0).close()
        for link in links:
            link.close()

    def _one(self) -> socket.socket | None:
        try:
            link = socket.create_connection(("127.0.0.1", self._port), timeout=2)
        except OSError:
            self.refused += 1
            return None
        self.opened += 1
        with contextlib.suppress(OSError):  # it may have been sent away before it had said all
            link.sendall(self._chance.choice(list(REQUESTS.values())))
        return link
