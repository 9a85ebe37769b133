"""How many compiles ccache had the answer to: a run is cold or warm by it, and its seconds mean little without."""

from __future__ import annotations

import subprocess
from typing import NamedTuple, Optional

HITS = ("direct_cache_hit", "preprocessed_cache_hit")


class Counts(NamedTuple):
    hits: int
    misses: int

    def since(self, before: "Counts") -> "Counts":
        return Counts(self.hits - before.hits, self.misses - before.misses)

    def __str__(self) -> str:
        compiles = self.hits + self.misses
        return f"{self.hits} of {compiles} compiles, {100 * self.hits // compiles} %" if compiles else "no compiles"


def counts() -> Optional[Counts]:
    """Of its whole life; None where there is no ccache."""
    try:
        asked = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = dict(line.split("\t", 1) for line in asked.stdout.splitlines() if "\t" in line)
    return Counts(sum(int(found.get(key, 0)) for key in HITS), int(found.get("cache_miss", 0)))


def of_this_run(before: Optional[Counts]) -> Optional[Counts]:
    """A run may install it: then it had counted nothing before."""
    now = counts()
    return now.since(before or Counts(0, 0)) if now else None
