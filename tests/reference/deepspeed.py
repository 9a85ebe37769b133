"""Where DeepSpeed is, for the tests that ask it. It is never needed: they are skipped without it."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

import pytest


@functools.cache
def deepspeed_python() -> str | None:
    """An interpreter that has it; benchmarks/config/setup makes one."""
    return os.environ.get("WEFT_DEEPSPEED_PYTHON") or (sys.executable if importlib.util.find_spec("deepspeed") else None)


needs_deepspeed = pytest.mark.skipif(
    deepspeed_python() is None,
    reason="deepspeed is not installed; WEFT_DEEPSPEED_PYTHON names an interpreter that has it, and benchmarks/config/setup makes one")
