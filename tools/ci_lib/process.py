"""One command of a CI run: started in a session of its own, its output copied line by line, ended with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Callable, NamedTuple

GRACE_S = 5.0
# A step at low priority takes what the tests beside it leave.
NICE = 15


class Process(NamedTuple):
    """A process and when it began: a number alone may be another process by the time that it is used."""

    pid: int
    began: str


def table() -> dict[int, tuple[int, str]]:
    """Every process: its parent, and when it began in ticks."""
    found: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in brackets may hold blanks and brackets of its own.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(entry.name)] = (int(fields[1]), fields[19])
    return found


def family(pid: int) -> list[Process]:
    """The process and all below it, also those in sessions of their own."""
    processes = table()
    found = [pid] if pid in processes else []
    for parent in found:  # grows while it is walked
        found += [child for child, (above, _) in processes.items() if above == parent]
    return [Process(number, processes[number][1]) for number in found]


def signal_all(processes: list[Process], number: int) -> None:
    now = table()
    for process in processes:
        if process.pid in now and now[process.pid][1] == process.began:
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                pass


def yield_to_others(session: int) -> None:
    """Linux shares time between sessions first (sched_autogroup): a nice process of another session gives way to nothing."""
    try:
        Path(f"/proc/{session}/autogroup").write_text(str(NICE), encoding="utf-8")
    except OSError:
        pass  # a kernel without autogroups, where `nice` alone does it


class Command:
    """Runs from its construction on; `ended` is called once, in another thread, with the exit code."""

    def __init__(self, words: str, cwd: Path, log: Path, show: Callable[[str], None], ended: Callable[[int], None], nice: bool):
        shell = ["nice", "-n", str(NICE)] if nice else []
        self._log = log.open("w", encoding="utf-8")
        self._show = show
        self._process = subprocess.Popen(
            [*shell, "bash", "-c", words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True)
        if nice:
            yield_to_others(self._process.pid)
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()

    def _copy(self) -> None:
        with self._log:
            for line in self._process.stdout:
                self._log.write(line)
                self._log.flush()
                self._show(line)

    def _wait(self, ended: Callable[[int], None]) -> None:
        code = self._process.wait()
        # What the command left running may hold its output open; that is not waited for.
        self._reader.join(GRACE_S)
        ended(code)

    def end(self) -> None:
        """Asks the command and all it started to end, and after a while makes them."""
        processes = family(self._process.pid)
        signal_all(processes, signal.SIGTERM)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        signal_all(processes, signal.SIGKILL)

