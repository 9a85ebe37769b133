"""Which files a developer changed, as git sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path


class ChangesError(RuntimeError):
    """git cannot say what changed."""


def git(root: Path, *words: str) -> str:
    asked = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise ChangesError(asked.stderr.strip() or f"git {words[0]} ended with {asked.returncode}")
    return asked.stdout


def changed_files(root: Path, base: str) -> list[str]:
    """Against where this branch left `base`: committed, staged, not staged, new, and gone."""
    left = git(root, "merge-base", base, "HEAD").strip()
    changed = git(root, "diff", "--name-only", "--no-renames", "-z", left)
    new = git(root, "ls-files", "-z", "--others", "--exclude-standard")
    return sorted({name for name in (changed + new).split("\0") if name})
