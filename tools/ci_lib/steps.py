"""The steps of a CI run, as .ci/run writes them: one line each, `name | when | command`.

    when is empty    after the line above, alone
    beside           beside what follows, at low priority; such steps run one at a time, in their order
    after NAME       as empty, but not before the beside step NAME has ended
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

NAME = re.compile(r"[a-z][a-z0-9 -]*")


class StepsError(ValueError):
    """The lines are wrong; the text says which and how."""


class Step(NamedTuple):
    name: str
    command: str
    beside: bool = False
    after: Optional[str] = None

    @property
    def log_name(self) -> str:
        return self.name.replace(" ", "-") + ".log"


def parsed(line: str) -> Step:
    cells = [cell.strip() for cell in line.split("|", 2)]
    if len(cells) != 3 or not NAME.fullmatch(cells[0]) or not cells[2]:
        raise StepsError("expected `name | when | command`")
    name, when, command = cells
    if when in ("", "beside"):
        return Step(name, command, beside=when == "beside")
    if not when.startswith("after "):
        raise StepsError(f"`{when}` is not empty, `beside` or `after NAME`")
    return Step(name, command, after=when.removeprefix("after ").strip())


def check_against(above: list[Step], step: Step) -> None:
    if any(other.name == step.name for other in above):
        raise StepsError(f"there is a step `{step.name}` above")
    if step.after is not None and not any(other.beside and other.name == step.after for other in above):
        raise StepsError(f"no step `{step.after}` above runs beside others")


def read_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            step = parsed(line)
            check_against(steps, step)
        except StepsError as problem:
            raise StepsError(f"line {number} of the steps: {problem}: {line}") from None
        steps.append(step)
    if not steps:
        raise StepsError("there are no steps")
    return steps
