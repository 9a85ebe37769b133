"""Whether weft and DeepSpeed came to the same value of a setting."""

from __future__ import annotations

import collections.abc
import pathlib
import tomllib

TABLE = pathlib.Path(__file__).resolve().parents[2] / "weft/config/settings.toml"
STRICT = {section["path"] for section in tomllib.loads(TABLE.read_text())["section"] if section.get("strict")}
TRIO = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
ABSENT = object()


def find(resolved: dict, path: str):
    """The value at a dotted path; ABSENT where weft resolves no such setting."""
    for name in path.split("."):
        if not isinstance(resolved, dict) or name not in resolved:
            return ABSENT
        resolved = resolved[name]
    return resolved


def coerced(value):
    """A value DeepSpeed left as it was written, in the type its reader would have given it in a strict section."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        text = value.strip().lower().replace("_", "")
        words = {"true": 1, "t": 1, "yes": 1, "y": 1, "on": 1, "false": 0, "f": 0, "no": 0, "n": 0, "off": 0}
        try:
            return words[text] if text in words else float(text)
        except ValueError:
            return text
    return value


def same(path: str, weft, deepspeed) -> str:
    """"yes", "no", or "coerced": the same after a conversion DeepSpeed leaves to whoever uses the value."""
    if path in ("optimizer.type", "torch_autocast.dtype", "gradient_allreduce_op") and isinstance(weft, str):
        return "yes" if weft.lower() == str(deepspeed).lower() else "no"
    if path.endswith("nvme_path") and None not in (weft, deepspeed):
        return "yes" if pathlib.Path(weft) == pathlib.Path(deepspeed) else "no"
    if weft == deepspeed and isinstance(weft, bool) == isinstance(deepspeed, bool):
        return "yes"
    if isinstance(weft, float) and isinstance(deepspeed, int) and weft == float(deepspeed):
        return "yes"
    is_strict = path.rpartition(".")[0] in STRICT
    if isinstance(weft, bool) and not is_strict and bool(deepspeed) != weft:
        return "no"  # "false" is a text, and a text is true
    return "coerced" if not is_strict and coerced(weft) == coerced(deepspeed) else "no"


def compared(resolved: dict, values: dict, wrong: set[str]) -> collections.abc.Iterator[tuple]:
    """(path, answer, weft's value, DeepSpeed's) of each setting both resolve, but for those weft found wrong."""
    skipped = wrong | (TRIO if wrong & TRIO else set()) | ({"wall_clock_breakdown"} if "flops_profiler.enabled" in wrong else set())
    for path, theirs in values.items():
        ours = find(resolved, path)
        if ours is not ABSENT and not any(path == other or path.startswith(other + ".") for other in skipped):
            yield path, same(path, ours, theirs), ours, theirs
