"""A tool on a terminal of a chosen width, which is a pseudo terminal, with all that it writes kept."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

# Long enough for a machine that is busy with a build; a test that passes waits for none of it.
DEADLINE_S = 60.0
# What may not leak in from the terminal that runs the tests.
PLAIN = {"PATH": os.environ["PATH"], "TERM": "xterm", "LC_ALL": "C.UTF-8"}


class OnTerminal:
    """Starts a command with its standard error on a pseudo terminal, and its standard input under our hand."""

    def __init__(self, *command: object, columns: int = 80, **env: str):
        self.ours, theirs = pty.openpty()
        self.resize(columns)
        words = [str(word) for word in command]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=theirs, env=PLAIN | env)
        os.close(theirs)
        self.shown = ""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def say(self, *lines: str) -> None:
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def see(self, text: str) -> str:
        """Reads until the text has been shown, and returns all that has."""
        while text not in self.shown:
            assert self._read(), f"{text!r} was never shown: {self.shown!r}"
        return self.shown

    def end(self) -> str:
        self.process.stdin.close()
        while self._read():
            pass
        os.close(self.ours)
        assert self.process.wait(DEADLINE_S) == 0
        return self.shown

    def _read(self) -> bool:
        ready, _, _ = select.select([self.ours], [], [], DEADLINE_S)
        assert ready, f"nothing more within {DEADLINE_S} s, after {self.shown!r}"
        try:
            data = os.read(self.ours, 65536)
        except OSError:  # EIO: the last that held the other end is gone
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


