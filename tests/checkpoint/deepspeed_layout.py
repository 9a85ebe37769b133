"""Checkpoint folders in DeepSpeed's layout, written with torch alone: what stages 1, 2 and 3 make of a model's tensors on any number of ranks.

    masters = {"a.weight": tensor, ...}                       # fp32; exp_avg and exp_avg_sq likewise
    write(folder, stage=2, world=3, groups=[["a.weight"], ["a.bias"]], masters=masters, states={"exp_avg": ..., "exp_avg_sq": ...})

An independent telling of the layout, so that the reader is not compared with itself.
"""

from __future__ import annotations

import pathlib

import torch

ALIGN = 2  # of a group, times the number of ranks


def cut(flat: torch.Tensor, world: int) -> list[torch.Tensor]:
    size = -(-flat.numel() // (ALIGN * world)) * ALIGN
    padded = torch.cat([flat, torch.full((size * world - flat.numel(),), float("nan"), dtype=flat.dtype)])
    return [padded[rank * size:(rank + 1) * size].clone() for rank in range(world)]


def by_group(tensors: dict, groups: list[list[str]], world: int, gap: int) -> list[list[torch.Tensor]]:
    """[rank][group]: a group laid flat, with `gap` elements of nothing behind each parameter but the last, cut into partitions."""
    out = []
    for names in groups:
        pieces = []
        for name in names:
            pieces += [tensors[name].flatten(), torch.full((gap if name != names[-1] else 0,), float("nan"))]
        out.append(cut(torch.cat(pieces), world))
    return [[group[rank] for group in out] for rank in range(world)]


def share(tensor: torch.Tensor, rank: int, world: int) -> torch.Tensor:
    size = -(-tensor.numel() // world)
    part = tensor.flatten()[rank * size:(rank + 1) * size]
    return torch.cat([part, torch.full((size - part.numel(),), 77, dtype=tensor.dtype)])


def by_parameter(tensors: dict, groups: list[list[str]], world: int) -> list[list[torch.Tensor]]:
    return [[torch.cat([share(tensors[name], rank, world) for name in names]) for names in groups] for rank in range(world)]


def model_states(masters: dict, frozen: dict, buffers: dict, groups: list[list[str]], shared: dict, step: int, more: dict) -> dict:
    module = {name: value.to(torch.bfloat16) for name, value in masters.items()} | frozen | buffers
    module |= {alias: module[name] for alias, name in shared.items()}
    return {"module": module, "buffer_names": list(buffers), "optimizer": None, "param_shapes": [{n: masters[n].shape for n in names} for names in groups],
            "frozen_param_shapes": {n: v.shape for n, v in frozen.items()}, "frozen_param_fragments": dict(frozen), "shared_params": shared,
            "lr_scheduler": None, "skipped_steps": 1, "global_steps": step, "dp_world_size": 1, "mp_world_size": 1, "ds_version": "0.19.8",
            "ds_config": {"gradient_accumulation_steps": 4}, **more}


def optimizer_states(kinds: dict[str, list[torch.Tensor]], step: int) -> dict:
    count = len(next(iter(kinds.values())))
    state = {i: {"step": torch.tensor(float(step)), **{kind: flats[i] for kind, flats in kinds.items()}} for i in range(count)}
    return {"state": state, "param_groups": [{"lr": 0.1, "params": [i]} for i in range(count)]}


def write(folder: pathlib.Path, *, stage: int, world: int, groups: list[list[str]], masters: dict, states: dict, frozen: dict | None = None,
          buffers: dict | None = None, shared: dict | None = None, step: int = 12, gap: int = 0, tag: str = "global_step12", more: dict | None = None) -> None:
    place = folder / tag
    place.mkdir(parents=True)
    (folder / "latest").write_text(tag)
    frozen, buffers, shared = frozen or {}, buffers or {}, shared or {}
    model = model_states(masters, frozen, buffers, groups, shared, step, more or {})
    layout = (lambda tensors: by_parameter(tensors, groups, world)) if stage == 3 else (lambda tensors: by_group(tensors, groups, world, gap))
    weights, kinds = layout(masters), {kind: layout(tensors) for kind, tensors in states.items()}
    if stage < 3:
        torch.save(model, place / "mp_rank_00_model_states.pt")
    for rank in range(world):
        inner = optimizer_states({kind: flats[rank] for kind, flats in kinds.items()}, step - 1)
        optimizer = {"zero_stage": stage, "partition_count": world if stage == 3 else [world] * len(groups)}
        if stage == 3:
            optimizer |= {"optimizer_state_dict": inner, "fp32_flat_groups": weights[rank]}
            nothing = {name: value if name in buffers else torch.empty(0) for name, value in model["module"].items()}
            fragments = {name: share(value, rank, world) for name, value in frozen.items()}
            torch.save(model | {"module": nothing, "frozen_param_fragments": fragments}, place / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        else:
            padding = [[gap] * (len(names) - 1) + [0] for names in groups]
            lean = weights[rank]
            if rank == world - 1:  # what only fills the last partition is left out of the weights, and not out of the state
                lean = [flat[:flat.numel() - int(torch.isnan(flat[-ALIGN * world:]).flip(0).cumprod(0).sum())] for flat in lean]
            optimizer |= {"base_optimizer_state": inner, "single_partition_of_fp32_groups": lean, "param_alignment_paddings": padding}
        torch.save({"optimizer_state_dict": optimizer}, place / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
