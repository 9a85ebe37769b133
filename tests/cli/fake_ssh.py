#!/usr/bin/env python3
"""Stands in for ssh: fake_ssh.py HOST COMMAND runs COMMAND in a shell of this machine, as sshd would: in a session of its own, with a bare environment, and with
an input and an output that end when this process does. Killing it does not kill what it started.

The names of some hosts make it fail: unreachable, chatty (a greeting comes first on standard output), stuck (no answer at all),
leaving (once there is a file named gone).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

host, command = sys.argv[1:3]
if host == "unreachable" or (host == "leaving" and os.path.exists("gone")):
    print("ssh: connect to host unreachable port 22: No route to host", file=sys.stderr)
    sys.exit(255)
if host == "stuck":
    signal.pause()
if host == "chatty":
    print("Welcome to chatty!\nYou have mail.", flush=True)

bare = {name: os.environ[name] for name in ("PATH", "HOME", "ASAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ}
child = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=bare | {"FAKE_HOST": host}, start_new_session=True)


def pass_on_input() -> None:
    try:
        while data := os.read(0, 1 << 16):
            child.stdin.write(data)
            child.stdin.flush()
        child.stdin.close()
    except OSError:
        pass


def pass_on_output() -> None:
    """Else the last words of an agent whose connection was cut would arrive all the same, now and then before the news of the cut."""
    try:
        while data := os.read(child.stdout.fileno(), 1 << 16):
            while data:
                data = data[os.write(1, data):]
    except OSError:
        pass


threading.Thread(target=pass_on_input, daemon=True).start()
pass_on_output()
code = child.wait()
os._exit(code if code >= 0 else 255)
