"""The seconds that CI may take, step by step: the table in CONTRIBUTING.md, which is the only place that says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ci_lib.steps import Step

HEADER = ["step", "seconds"]
# The last two rows are about the whole run: what we aim at, and what later work may fill up to.
TOTAL = "total"
CEILING = "ceiling"
# So much is always left for the last step, or a slow machine would never look at anything in it.
LEAST_MINUTES = 1.0


class BudgetError(ValueError):
    """The table is wrong, or is not about these steps."""


class Budget(NamedTuple):
    seconds: dict[str, int]  # by step
    total: int
    ceiling: int


def cells_of(line: str) -> list[str]:
    return [cell.strip().strip("*`").strip() for cell in line.strip().strip("|").split("|")]


def rows(text: str) -> dict[str, str]:
    """The cells `step` and `seconds` of each row of the table that begins with these two."""
    found: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = cells_of(line)
        if cells[:2] == HEADER:
            inside = True
        elif inside and not re.fullmatch(r"[-: ]*", cells[0]):
            found[cells[0]] = cells[1] if len(cells) > 1 else ""
    return found


def read_budget(path: Path) -> Budget:
    found = rows(path.read_text(encoding="utf-8"))
    for name, seconds in found.items():
        if not re.fullmatch(r"\d+", seconds):
            raise BudgetError(f"{path}: the row `{name}` has `{seconds}` for seconds, not a whole number")
    missing = [name for name in (TOTAL, CEILING) if name not in found]
    if missing:
        raise BudgetError(f"{path}: the table `| step | seconds |` has no row `{missing[0]}`")
    of_steps = {name: int(seconds) for name, seconds in found.items() if name not in (TOTAL, CEILING)}
    return Budget(of_steps, int(found[TOTAL]), int(found[CEILING]))


def check_names(budget: Budget, steps: list[Step]) -> None:
    names = [step.name for step in steps]
    without_row = [name for name in names if name not in budget.seconds]
    without_step = [name for name in budget.seconds if name not in names]
    if without_row:
        raise BudgetError(f"no row of the budget is about the step `{without_row[0]}`")
    if without_step:
        raise BudgetError(f"the budget has a row `{without_step[0]}`, and no step has this name")


def minutes_left(budget: Budget, step: Step, elapsed_s: float) -> float:
    """For a step that can stop early: its own row, or what the whole run has left where that is less."""
    left_s = min(float(budget.seconds[step.name]), budget.total - elapsed_s)
    return round(max(LEAST_MINUTES, left_s / 60), 1)
