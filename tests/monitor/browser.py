"""A headless Chromium, spoken to over a pipe in its own protocol: no driver, no library, no port."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

DEADLINE_S = 60.0


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Browser:
    """One page. Console errors and uncaught exceptions gather in `problems`; `requests` are the addresses it asked for."""

    def __init__(self, width: int = 1200, height: int = 900, dark: bool = False):
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._number, self._buffer = 0, b""
        self._profile = tempfile.TemporaryDirectory()
        self._start()
        target = self._send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # a window that nobody looks at gets no focus events
        self.set_dark(dark)
        self.resize(width, height)

    def _start(self) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def hand_over() -> None:  # the protocol's own numbers: the browser reads 3 and writes 4
            high = os.dup(to_read), os.dup(to_write)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe", "--lang=en",
                 f"--user-data-dir={self._profile.name}"]
        self._process = subprocess.Popen([find_browser(), *flags], close_fds=False, preexec_fn=hand_over, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        os.close(self._read)
        os.close(self._write)
        for _ in range(20):  # its helpers may still be writing there
            try:
                self._profile.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def _message(self, until: float) -> dict:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {DEADLINE_S} s")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise ConnectionError("the browser has ended")
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def _notice(self, message: dict) -> None:
        params = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        elif message["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(json.dumps(params["args"])[:500])
        elif message["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _send(self, method: str, params: dict, wait_for: str | None = None, **more) -> dict:
        self._number += 1
        os.write(self._write, json.dumps({"id": self._number, "method": method, "params": params, **more}).encode() + b"\0")
        until, result = time.monotonic() + DEADLINE_S, None
        while result is None or wait_for:
            message = self._message(until)
            if message.get("id") == self._number:
                assert "error" not in message, message
                result = message["result"]
            elif "method" in message:
                self._notice(message)
                wait_for = None if message["method"] == wait_for else wait_for
        return result

    def call(self, method: str, wait_for: str | None = None, **params) -> dict:
        return self._send(method, params, wait_for, sessionId=self._session)

    def open(self, where: pathlib.Path | str) -> None:
        """A file, or an address."""
        self.call("Page.navigate", wait_for="Page.loadEventFired", url=where if isinstance(where, str) else where.resolve().as_uri())
        self.settle()

    def settle(self) -> None:
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def set_dark(self, dark: bool) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def wait_for(self, expression: str, deadline_s: float = DEADLINE_S):
        """Its first true value."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            if value := self.js(expression):
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {expression}\n{self.js('document.body.innerText')[:2000]}\n{self.problems}")

    def js(self, expression: str):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": 9} if key == "Tab" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))

    def screenshot(self, path: pathlib.Path, whole: bool = True, clip: dict | None = None) -> None:
        area = {"clip": clip | {"scale": 1}} if clip else {}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **area)["data"]
        path.write_bytes(base64.b64decode(data))
