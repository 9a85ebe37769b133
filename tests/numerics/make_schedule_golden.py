#!/usr/bin/env python3
"""Writes weft/optim/core/schedule_golden_impl.h: learning rates and betas as DeepSpeed's and torch's own schedulers give them.

    python tests/numerics/make_schedule_golden.py       in an environment with deepspeed 0.19.8

Each scheduler is run on an optimizer with two parameter groups, stepped as the engine steps it: once after every update.
"""

from __future__ import annotations

import json
import logging
import pathlib

import torch
from deepspeed.runtime import lr_schedules

logging.disable(logging.WARNING)
OUT = pathlib.Path(__file__).resolve().parents[2] / "weft/optim/core/schedule_golden_impl.h"
BASE_LRS = (0.0003, 0.002)
STEPS = (0, 1, 2, 3, 5, 8, 9, 10, 11, 12, 15, 19, 20, 21, 25, 29, 30, 31, 35, 40, 47, 60, 100)
CASES = [
    ("WarmupLR", {"warmup_num_steps": 10}),
    ("WarmupLR", {"warmup_num_steps": 10, "warmup_type": "linear", "warmup_min_lr": 1e-5, "warmup_max_lr": 0.003}),
    ("WarmupLR", {"warmup_num_steps": 1, "warmup_min_lr": [1e-5, 2e-5], "warmup_max_lr": [0.01, 0.02]}),
    ("WarmupLR", {}),
    ("WarmupDecayLR", {"total_num_steps": 30, "warmup_num_steps": 10}),
    ("WarmupDecayLR", {"total_num_steps": 30, "warmup_num_steps": 10, "warmup_type": "linear", "warmup_min_lr": 1e-5, "warmup_max_lr": 0.003}),
    ("WarmupDecayLR", {"total_num_steps": 5, "warmup_num_steps": 10}),
    ("WarmupCosineLR", {"total_num_steps": 30, "warmup_num_steps": 10}),
    ("WarmupCosineLR", {"total_num_steps": 30, "warmup_num_steps": 10, "warmup_type": "linear", "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05}),
    ("WarmupCosineLR", {"total_num_steps": 10, "warmup_num_steps": 10}),
    ("OneCycle", {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001, "cycle_first_step_size": 10}),
    ("OneCycle", {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001, "cycle_first_step_size": 7, "cycle_second_step_size": 14, "decay_lr_rate": 0.5,
                  "decay_step_size": 4, "decay_mom_rate": 0.01, "cycle_min_mom": 0.85, "cycle_max_mom": 0.95}),
    ("OneCycle", {"cycle_min_lr": [0.0001, 0.0002], "cycle_max_lr": [0.001, 0.002], "cycle_first_step_size": 9, "cycle_first_stair_count": 3,
                  "cycle_second_stair_count": 4, "decay_lr_rate": 0.1}),
    ("OneCycle", {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001, "cycle_first_step_size": 12, "cycle_second_step_size": 0, "cycle_momentum": False}),
    ("LRRangeTest", {"lr_range_test_min_lr": 0.0001, "lr_range_test_step_size": 5, "lr_range_test_step_rate": 2}),
    ("LRRangeTest", {"lr_range_test_min_lr": [0.0001, 0.0002], "lr_range_test_step_size": 7, "lr_range_test_staircase": True}),
    ("LRRangeTest", {}),
    ("ConstantLR", {}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 12}),
    ("LinearLR", {"start_factor": 0.1, "total_iters": 20}),
    ("LinearLR", {"start_factor": 1, "end_factor": 0.2, "total_iters": 30}),
    ("CosineAnnealingLR", {"T_max": 40}),
    ("CosineAnnealingLR", {"T_max": 30, "eta_min": 1e-5}),
]


def rows(type_name: str, params: dict) -> list[str]:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in BASE_LRS]
    optimizer = torch.optim.AdamW(groups, lr=1.0)
    own = [group["betas"] for group in groups]
    scheduler = getattr(lr_schedules, type_name, None) or getattr(torch.optim.lr_scheduler, type_name)
    scheduler = scheduler(optimizer, **params)
    found = []
    for step in range(max(STEPS) + 1):
        for index, group in enumerate(optimizer.param_groups):
            moved = "OneCycle" == type_name and params.get("cycle_momentum", True)
            first, second = group["betas"] if moved else (0, 0)
            if step in STEPS:
                found.append(f"{{{step}, {index}, {float(group['lr'])!r}, {float(first)!r}, {float(second)!r}}}")
        optimizer.step()
        scheduler.step()
    assert type_name == "OneCycle" or own == [group["betas"] for group in groups]
    return found


def main() -> None:
    lines = [
        "// Made by tests/numerics/make_schedule_golden.py with DeepSpeed 0.19.8 and torch; do not edit.",
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
        f"inline constexpr double kBaseLrs[] = {{{', '.join(map(repr, BASE_LRS))}}};",
        "",
        "// Betas of 0: the scheduler leaves them alone.",
        "struct Row { int64_t step; size_t group; double lr, beta1, beta2; };",
        "struct Case { std::string_view type, params; std::vector<Row> rows; };",
        "",
        "inline std::vector<Case> cases() {",
        "  return {",
    ]
    for type_name, params in CASES:
        lines.append(f'    {{"{type_name}", R"({json.dumps(params)})", {{')
        found = rows(type_name, params)
        lines += ["        " + ", ".join(found[i:i + 4]) + "," for i in range(0, len(found), 4)]
        lines.append("    }},")
    lines += ["  };", "}", "", "}  // namespace weft::optim::golden", ""]
    OUT.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
