"""What DeepSpeed's own reader makes of a config, under the paths weft uses.

    python deepspeed_reader.py --world 8 ds_config.json ...     one JSON object, file name -> reading
    python deepspeed_reader.py --world 8 --record FILE ...      FILE.deepspeed.json beside each, for tests without deepspeed

Needs deepspeed to be importable, nothing else: no GPU, no process group. The world size is patched in.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import pathlib
import sys
import types

os.environ.setdefault("DS_ACCELERATOR", "cpu")

DTYPES = {"torch.float16": "fp16", "torch.bfloat16": "bf16", "torch.float32": "fp32", "torch.int8": "int8"}

# Attributes of DeepSpeedConfig that hold a top-level key of the same name.
PLAIN = (
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps managed_gradient_accumulation steps_per_print "
    "dataloader_drop_last gradient_clipping zero_allow_untested_optimizer zero_force_ds_cpu_optimizer communication_data_type "
    "prescale_gradients gradient_predivide_factor gradient_allreduce_op wall_clock_breakdown memory_breakdown dump_state log_level "
    "disable_allgather seq_parallel_communication_data_type disable_python_gc"
).split()
ACTIVATION = "partition_activations number_checkpoints contiguous_memory_optimization cpu_checkpointing synchronize_checkpoint_boundary profile".split()
FLOPS = "enabled recompute_fwd_factor profile_step module_depth top_modules detailed output_file".split()


def plain(value):
    """JSON for a value of the reader: dtypes by their short names, paths as text, enums as their values."""
    if isinstance(value, pathlib.Path):
        return str(value)
    if str(value) in DTYPES:
        return DTYPES[str(value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    return value


def dtype(value):
    """data_types holds what was written; DeepSpeed interprets it where it is used."""
    from deepspeed.runtime.config import DtypeEnum

    try:
        return plain(DtypeEnum(value).value) if value is not None else None
    except ValueError:
        return value


def model(prefix: str, section) -> dict:
    """Fields of a pydantic section under the names they have in a file."""
    values = {}
    for name, field in type(section).model_fields.items():
        if hasattr(section, name):
            values[f"{prefix}.{field.alias or name}"] = plain(getattr(section, name))
    return values


def zero_values(zero) -> dict:
    from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig, DeepSpeedZeroOffloadParamConfig

    values = model("zero_optimization", zero)
    sections = {
        "offload_param": zero.offload_param or DeepSpeedZeroOffloadParamConfig(),
        "offload_optimizer": zero.offload_optimizer or DeepSpeedZeroOffloadOptimizerConfig(),
        "leaf_module": zero.leaf_module,
    }
    for name, section in sections.items():
        values.pop(f"zero_optimization.{name}", None)
        values |= model(f"zero_optimization.{name}", section)
    return values


def checkpoint_values(config) -> dict:
    from deepspeed.runtime.model_checkpointing.config import get_checkpoint_writer_config

    writer = config.checkpoint_config["writer"] or get_checkpoint_writer_config({"writer": {}})
    values = {f"checkpoint.writer.{key}": value for key, value in writer.items()}
    values["checkpoint.tag_validation"] = config.checkpoint_config["tag_validation"]
    values["checkpoint.checkpoint_serialization"] = config.checkpoint_config["checkpoint_serialization"]
    values["checkpoint.load_universal"] = config.load_universal_checkpoint
    values["checkpoint.use_node_local_storage"] = config.use_node_local_storage
    return values


def section_values(config) -> dict:
    from deepspeed.comm.config import CommsLoggerConfig

    values = model("fp16", config.float16_config) | model("bf16", config.bfloat16_config)
    for name in ("tensorboard", "csv_monitor", "wandb"):
        values |= model(name, getattr(config.monitor_config, name))
    values |= model("timers.throughput", config.timers_config)
    values |= model("comms_logger", getattr(config.comms_config, "comms_logger", None) or CommsLoggerConfig())
    values |= {f"activation_checkpointing.{key}": getattr(config.activation_checkpointing_config, key) for key in ACTIVATION}
    values |= {f"flops_profiler.{key}": getattr(config.flops_profiler_config, key) for key in FLOPS}
    values |= {f"aio.{key}": value for key, value in config.aio_config.items()}
    return values


def values_of(config) -> dict:
    values = {key: plain(getattr(config, key)) for key in PLAIN}
    values["use_data_before_expert_parallelism"] = config.use_data_before_expert_parallel_
    values["vocabulary_size"] = config._param_dict.get("vocabulary_size")
    values["datastates_ckpt"] = config.datastates_config.config
    values["optimizer.type"] = config.optimizer_name
    values["optimizer.params"] = config.optimizer_params
    values["optimizer.legacy_fusion"] = config.optimizer_legacy_fusion
    values["scheduler.type"] = config.scheduler_name
    values["scheduler.params"] = config.scheduler_params
    values["torch_autocast.enabled"] = config.torch_autocast_enabled
    values["torch_autocast.dtype"] = plain(config.torch_autocast_dtype)
    values["torch_autocast.lower_precision_safe_modules"] = config.torch_autocast_lower_precision_safe_modules
    for key in ("grad_accum_dtype", "param_dtype", "buffer_dtype"):
        values[f"data_types.{key}"] = dtype(getattr(config, key))
    values["data_types.keep_in_fp32_modules"] = config.keep_in_fp32_modules
    return values | zero_values(config.zero_config) | section_values(config) | checkpoint_values(config)


def read(source: str | dict, world: int) -> dict:
    """{"accepted", "error", "values"} for a file, a base64 text or a dict."""
    from deepspeed import comm
    from deepspeed.runtime import config as reader
    from deepspeed.runtime.swap_tensor import aio_config
    from deepspeed.utils import logger

    logger.setLevel(logging.CRITICAL)
    comm.get_rank, comm.get_world_size = lambda *_: 0, lambda *_: world
    # aio.use_gds is refused on machines without CUDA; the config is judged here, not the machine.
    aio_config.get_accelerator = lambda: types.SimpleNamespace(device_name=lambda: "cuda")
    try:
        return {"accepted": True, "error": "", "values": values_of(reader.DeepSpeedConfig(source))}
    except Exception as error:  # noqa: BLE001: whatever it raises, the config is refused
        return {"accepted": False, "error": f"{type(error).__name__}: {error}", "values": {}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("file", nargs="+")
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):  # deepspeed prints while it is imported
        readings = {file: read(file, arguments.world) for file in arguments.file}
    if not arguments.record:
        json.dump(readings, sys.stdout, indent=1, default=str)
        return 0
    for file, reading in readings.items():
        pathlib.Path(file + ".deepspeed.json").write_text(json.dumps(reading, indent=1, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
