#!/usr/bin/env python3
"""Writes weft/optim/core/loss_scale_golden_impl.h: loss scales as DeepSpeed's own scaler gives them.

    python tests/numerics/make_loss_scale_golden.py       in an environment with deepspeed 0.19.8

Each scaler is updated 3000 times. A row is written where its scale changed, or whether the next overflow makes DeepSpeed raise. The scaler is told not
to, and shows how it goes on; a second one shows whether it would have.
"""

from __future__ import annotations

import json
import logging
import pathlib
import random

from deepspeed.runtime.fp16 import loss_scaler
from deepspeed.runtime.precision_config import DeepSpeedFP16Config

logging.disable(logging.WARNING)
loss_scaler.dist.get_rank = lambda: 0  # no process group is needed to count
OUT = pathlib.Path(__file__).resolve().parents[2] / "weft/optim/core/loss_scale_golden_impl.h"
UPDATES = 3000
SETTINGS = [
    {},
    {"loss_scale_window": 100},
    {"loss_scale_window": 70, "hysteresis": 1, "initial_scale_power": 20},
    {"loss_scale_window": 80, "hysteresis": 4, "consecutive_hysteresis": True},
    {"loss_scale_window": 60, "hysteresis": 3},
    {"loss_scale_window": 1000, "min_loss_scale": 1024, "initial_scale_power": 12},
    {"loss_scale_window": 90, "min_loss_scale": 3, "initial_scale_power": 4, "hysteresis": 1},
    {"loss_scale_window": 110, "min_loss_scale": 64, "initial_scale_power": 2},
    {"loss_scale_window": 200, "min_loss_scale": 1, "initial_scale_power": -3, "hysteresis": 2, "consecutive_hysteresis": True},
]


def at_random(seed: int, one_in: int) -> list[bool]:
    numbers = random.Random(seed)
    return [numbers.randrange(one_in) == 0 for _ in range(UPDATES)]


PATTERNS = {
    "never": [False] * UPDATES,
    "at the start": [i < 6 for i in range(UPDATES)],
    "one in 40": at_random(1, 40),
    "one in 150": at_random(2, 150),
    "in threes": [i % 300 in (100, 101, 102) for i in range(UPDATES)],
    "every other in a stretch": [500 <= i < 560 and i % 2 == 0 for i in range(UPDATES)],
}


def runs(overflows: list[bool]) -> list[int]:
    """Successes, overflows, successes, ...: how many in a row."""
    found, now = [0], False
    for overflow in overflows:
        if overflow != now:
            found.append(0)
            now = overflow
        found[-1] += 1
    return found


def raises(settings: dict, before: dict) -> bool:
    strict = loss_scaler.DynamicLossScaler(**settings)
    strict.__dict__.update(before | {"raise_error_at_min_scale": True})
    try:
        strict.update_scale(True)
    except Exception:  # DeepSpeed raises no narrower one
        return True
    return False


def rows(settings: dict, overflows: list[bool]) -> list[str]:
    settings = DeepSpeedFP16Config(enabled=True, **settings).dynamic_loss_scale_args()
    scaler = loss_scaler.DynamicLossScaler(**settings, raise_error_at_min_scale=False)
    found, last = [], None
    for index in range(UPDATES + 1):
        now = (float(scaler.cur_scale), raises(settings, dict(scaler.__dict__)))
        if now != last:
            found.append(f"{{{index}, {now[0]!r}, {str(now[1]).lower()}}}")
        last = now
        if index < UPDATES:
            scaler.update_scale(overflows[index])
    return found


def wrapped(pieces: list[str], indent: str) -> list[str]:
    lines, line = [], indent
    for piece in pieces:
        if len(line) + len(piece) > 150:
            lines.append(line.rstrip())
            line = indent
        line += piece + ", "
    return lines + [line.rstrip()]


def main() -> None:
    lines = [
        "// Made by tests/numerics/make_loss_scale_golden.py with DeepSpeed 0.19.8; do not edit.",
        "// clang-format off",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <string_view>",
        "#include <vector>",
        "",
        "namespace weft::optim::golden {",
        "",
        "// Before that update, and before those that follow up to the next row. at_minimum: an overflow now makes DeepSpeed raise.",
        "struct ScaleRow { int64_t update; double scale; bool at_minimum; };",
        "// runs: successes, overflows, successes, ...: how many in a row.",
        "struct ScalePattern { std::string_view name; std::vector<int64_t> runs; };",
        "struct ScaleCase { size_t pattern; std::string_view fp16; std::vector<ScaleRow> rows; };",
        "",
        "inline std::vector<ScalePattern> scale_patterns() {",
        "  return {",
    ]
    for name, overflows in PATTERNS.items():
        lines += [f'    {{"{name}", {{'] + wrapped([str(count) for count in runs(overflows)], "        ") + ["    }},"]
    lines += ["  };", "}", "", "inline std::vector<ScaleCase> scale_cases() {", "  return {"]
    for settings in SETTINGS:
        for index, overflows in enumerate(PATTERNS.values()):
            text = json.dumps({"enabled": True} | settings)
            lines += [f'    {{{index}, R"({text})", {{'] + wrapped(rows(settings, overflows), "        ") + ["    }},"]
    lines += ["  };", "}", "", "}  // namespace weft::optim::golden", ""]
    OUT.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
