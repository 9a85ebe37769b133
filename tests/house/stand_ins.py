"""A tree that holds copies of tools and nothing else, with stand-ins for the system's own programs on its PATH."""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import subprocess
from pathlib import Path

from small_tree import REPO, Outcome, run

DEADLINE_S = 60.0
# What the tools themselves are made of.
REAL = ("awk bash cat cksum cmp cut date df dirname du env find flock grep head ls mkdir mv printf rm sed sh sleep sort stat stty tail tee "
        "tr uniq wc xargs").split()


class Place:
    def __init__(self, root: Path, *tools: str):
        self.root = root
        (root / "tools").mkdir()
        (root / "bin").mkdir()
        for name in (*tools, "common.sh", "progress"):
            shutil.copy(REPO / "tools" / name, root / "tools" / name)
        for name in REAL:
            (root / "bin" / name).symlink_to(shutil.which(name))

    def stand_in(self, name: str, body: str, folder: str = "bin") -> None:
        path = self.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def command(self, tool: str, *flags: str, **env: str) -> list[str]:
        return ["env", "-i", f"PATH={self.root}/bin", *(f"{k}={v}" for k, v in env.items()), str(self.root / "tools" / tool), *flags]

    def run(self, tool: str, *flags: str, **env: str) -> Outcome:
        return run(*self.command(tool, *flags, **env))

    def text(self, name: str) -> str:
        return (self.root / name).read_text()


class Started:
    """A tool that is under way, in a session of its own, whose stand-ins say through a pipe that they have been reached."""

    def __init__(self, place: Place, tool: str, *flags: str, **env: str):
        self.process = subprocess.Popen(place.command(tool, *flags, **env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, start_new_session=True)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        """A test that fails leaves none behind, and waits for none."""
        if self.alive():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()

    def end(self) -> Outcome:
        try:
            text, _ = self.process.communicate(timeout=DEADLINE_S)
        finally:
            left = self.alive()
            if left:
                os.killpg(self.process.pid, signal.SIGKILL)
        assert not left, f"{left} outlived the tool"
        return Outcome(self.process.returncode, text.splitlines())

    def alive(self) -> list[str]:
        """The command lines of those still in its group."""
        listed = subprocess.run(["ps", "-o", "pgid=,stat=,args=", "-A"], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()]
        return [args for pgid, state, args in rows if pgid == str(self.process.pid) and not state.startswith("Z")]

    def interrupt_group(self) -> None:
        """As a terminal does on Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupt_alone(self) -> None:
        self.process.send_signal(signal.SIGINT)


def told(pipe: Path) -> None:
    """Waits until a stand-in has written to a named pipe."""
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        ready, _, _ = select.select([file], [], [], DEADLINE_S)
        assert ready, f"{pipe} was never reached"
