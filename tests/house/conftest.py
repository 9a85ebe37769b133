"""Fixtures for the tests of our own checkers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable

import pytest
from small_tree import REPO, Outcome, Tree, run


@pytest.fixture
def repo() -> Path:
    return REPO


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def tool() -> Callable[..., Outcome]:
    """Runs one of tools/*.py with the Python that runs the tests."""
    return lambda name, *words: run(sys.executable, "-B", REPO / "tools" / name, *words)
