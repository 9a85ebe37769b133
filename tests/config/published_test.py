"""Configs as guides print them: weft resolves each setting as DeepSpeed does, and finds in them what there is to find."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess

import pytest

from tests.config import same_values
from tests.reference.deepspeed import deepspeed_python, needs_deepspeed

HERE = pathlib.Path(__file__).resolve().parent
PUBLISHED = HERE / "published"
WORLD = "8"
# DeepSpeed reads no YAML: the trainer does, and hands over a dict or the file that the YAML names.
JSON_OF = {"pcie_zero2.yaml": "pcie_zero2.json", "training.yaml": "stage2_standard.json"}
NAMES = sorted(file.name for file in PUBLISHED.iterdir() if not file.name.endswith(".deepspeed.json"))


@functools.cache
def read_now() -> dict[str, dict]:
    files = [str(PUBLISHED / name) for name in NAMES if name.endswith(".json")]
    command = [deepspeed_python(), str(HERE / "deepspeed_reader.py"), "--world", WORLD, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return {pathlib.Path(file).name: reading for file, reading in json.loads(done.stdout).items()}


def recorded(name: str) -> dict:
    return json.loads((PUBLISHED / f"{JSON_OF.get(name, name)}.deepspeed.json").read_text())


def check(weft, name: str, *flags: str) -> dict:
    done = weft("check", "--json", "--no-env", "--lang", "en", "--world", WORLD, *flags, str(PUBLISHED / name))
    return json.loads(done.out)


def found(report: dict, *severities: str) -> list[tuple[str, str, str | None]]:
    return [(p["rule"], p["path"], p["suggested"]) for p in report["problems"] if p["severity"] in severities]


def good(report: dict) -> set[str]:
    return {row["path"] for row in report["good"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_comes_out_as_deepspeed_reads_it(weft, name):
    reading, report = recorded(name), check(weft, name)
    assert reading["accepted"], reading["error"]
    answers = list(same_values.compared(report["resolved"], reading["values"], wrong=set()))
    assert len(answers) > 100
    assert [row for row in answers if row[1] != "yes"] == []


@needs_deepspeed
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".json")])
def test_the_record_is_what_deepspeed_says_today(name):
    assert read_now()[name] == recorded(name)


def test_the_original_has_four_faults(weft):
    report = check(weft, "stage2_original.json")
    assert found(report, "error", "warning") == [
        ("bucket/gather-size", "zero_optimization.allgather_bucket_size", "200000000"),
        ("performance/overlap", "zero_optimization.overlap_comm", "true"),
        ("bucket/reduce-size", "zero_optimization.reduce_bucket_size", "200000000"),
        ("performance/printing", "steps_per_print", "50"),
    ]


def test_the_original_has_its_good_sides(weft):
    zero = {f"zero_optimization.{key}" for key in ("stage", "allgather_partitions", "reduce_scatter", "contiguous_gradients", "round_robin_gradients")}
    batch = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
    assert zero | batch | {"bf16.enabled", "gradient_clipping"} <= good(check(weft, "stage2_original.json"))


def test_the_arithmetic_of_the_batch_is_checked(weft):
    done = weft("check", "--json", "--no-env", "--world", "4", str(PUBLISHED / "stage2_original.json"))
    assert ("batch/mismatch", "train_batch_size") in [row[:2] for row in found(json.loads(done.out), "error")]


@pytest.mark.parametrize("name", ["stage2_standard.json", "training.yaml", "cpu_offload.json", "stage3_offload.json", "pcie_zero2.json"])
def test_the_repaired_ones_have_none(weft, name):
    assert found(check(weft, name), "error", "warning") == []


def test_the_fast_one_names_an_optimizer_by_its_class(weft):
    report = check(weft, "stage2_high_performance.json")
    assert ("arguments/class-name", "optimizer.type", '"AdamW"') in found(report, "warning")
    errors = found(report, "error")
    assert ("conflicts/contiguous-checkpoints", "activation_checkpointing.contiguous_memory_optimization", "false") in errors


def test_yaml_numbers_that_other_readers_take_for_text_are_named(weft):
    assert [row[0] for row in found(check(weft, "pcie_zero2.yaml"), "error", "warning")] == ["file/yaml-exponent"]


def test_the_distillation_config_has_a_key_that_never_existed_and_one_in_the_wrong_place(weft):
    report = check(weft, "distillation_zero3.json")
    assert found(report, "error", "warning") == [
        ("keys/misplaced", "memory_efficient_linear", "zero_optimization.memory_efficient_linear"),
        ("keys/another-tools", "use_dynamic_tiling", None),
    ]
    advice = {row[:2] for row in found(report, "advice")}
    assert ("inert/condition", "zero_optimization.offload_optimizer.fast_init") in advice
    assert ("inert/stage", "zero_optimization.round_robin_gradients") in advice
    assert ("inert/activation-checkpointing", "activation_checkpointing") in advice
