#!/usr/bin/env python3
"""Which files are the project's own, for the checkers beside this module.

    tools/our_files.py .h .cpp      those with these endings, NUL between them, for xargs -0
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Optional

# Walked only where git cannot answer (a source archive), so these stand in for .gitignore.
NOT_OURS = {"build", "runs", ".git", ".venv", "__pycache__", ".pytest_cache"}


def from_git(root: Path) -> Optional[list[str]]:
    """Tracked files and new ones that git does not ignore; None where root is not the top of a checkout."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.decode().split("\0")[:-1]


def walked(root: Path) -> list[str]:
    names = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [name.as_posix() for name in names if not NOT_OURS.intersection(name.parts)]


def our_files(root: Path) -> list[str]:
    """Paths relative to root, sorted. A tracked file that is gone from the disk is left out."""
    names = from_git(root)
    found = walked(root) if names is None else names
    return sorted(name for name in set(found) if (root / name).is_file())


def main() -> int:
    names = our_files(Path(__file__).resolve().parent.parent)
    sys.stdout.write("".join(name + "\0" for name in names if name.endswith(tuple(sys.argv[1:]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
