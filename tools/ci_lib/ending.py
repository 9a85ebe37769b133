"""What a CI run says at its end: the table of seconds beside the budget, and, of a run that failed, what and how to repeat it."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Iterator, Optional

from ci_lib.budget import Budget
from ci_lib.ccache import Counts
from ci_lib.findings import Finding, Told, findings, log_lines
from ci_lib.run import Done, Failed
from ci_lib.steps import Step

# All that is said of a failure lies in the last 20 lines: title, where, and two lines for each of these at most.
MAX_FINDINGS = 6
MAX_COLUMNS = 240


def note(done: Done, budget_s: Optional[int]) -> str:
    notes = ["beside"] if done.beside else []
    if budget_s is not None and round(done.seconds) > budget_s:
        notes.append(f"OVER by {round(done.seconds) - budget_s} s")
    if done.code != 0:
        notes.append(f"FAILED with {done.code}")
    return ", ".join(notes)


def row(name: str, seconds: float, budget_s: Optional[int], text: str) -> str:
    return f"ci: {name:<26} {seconds:>8.0f} {'-' if budget_s is None else budget_s:>8}  {text}".rstrip()


def table(done: list[Done], budget: Budget, total_s: float) -> Iterator[str]:
    yield f"ci: {'step':<26} {'seconds':>8} {'budget':>8}"
    for one in done:
        yield row(one.name, one.seconds, budget.seconds.get(one.name), note(one, budget.seconds.get(one.name)))
    over = f"OVER by {round(total_s) - budget.total} s" if round(total_s) > budget.total else ""
    if round(total_s) > budget.ceiling:
        over += f", and over the ceiling of {budget.ceiling} s: what does not fit belongs into make nightly"
    yield row("total", total_s, budget.total, over)


def left_out(steps: list[Step], done: list[Done], unfinished: list[str]) -> Iterator[str]:
    """After a failure: what was not run."""
    if unfinished:
        yield f"ci: ended before they were finished: {', '.join(unfinished)}"
    ended = {one.name for one in done}.union(unfinished)
    not_begun = [step.name for step in steps if step.name not in ended]
    if not_begun:
        yield f"ci: never begun: {', '.join(not_begun)}"


def cut(text: str) -> str:
    return text if len(text) <= MAX_COLUMNS else text[: MAX_COLUMNS - 3] + "..."


def failure(failed: Failed, log: Path, root: Path) -> Iterator[str]:
    running = failed.running
    told = Told(running.words, log_lines(log), running.began_wall, root)
    found = findings(told)
    yield f"error: CI failed in the step '{failed.done.name}', which ended with {failed.done.code} after {failed.done.seconds:.0f} s"
    yield from told_of(found[:MAX_FINDINGS])
    if len(found) > MAX_FINDINGS:
        yield f"  what:  {len(found) - MAX_FINDINGS} more"
    yield f"  where: {log.relative_to(root) if log.is_relative_to(root) else log}"


def told_of(found: list[Finding]) -> Iterator[str]:
    """A command that repeats several of them is said once, below the last."""
    for one, following in zip(found, [*found[1:], None]):
        yield f"  what:  {cut(one.what)}"
        if following is None or following.repeat != one.repeat:
            yield f"  do:    {one.repeat}"


def commit(root: Path) -> str:
    asked = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def processor() -> str:
    """What the seconds depend on most."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "unknown")


def write_times(path: Path, done: list[Done], budget: Budget, total_s: float, root: Path, cached: Optional[Counts]) -> None:
    steps = [{"name": one.name, "seconds": round(one.seconds, 1), "budget_seconds": budget.seconds.get(one.name), "beside": one.beside,
              "exit_code": one.code} for one in done]
    times = {"date": datetime.now(timezone.utc).isoformat(timespec="seconds"), "commit": commit(root), "processor": processor(),
             "cores": len(os.sched_getaffinity(0)), "total_seconds": round(total_s, 1), "budget_total_seconds": budget.total,
             "ccache": cached._asdict() if cached else None, "steps": steps}
    path.write_text(json.dumps(times, indent=2) + "\n", encoding="utf-8")
