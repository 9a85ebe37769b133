"""Random DeepSpeed configs: right, nearly right and wrong ones, in the many ways of writing HJSON.

Which settings there are comes from weft/config/settings.toml, so that a new one is exercised at once.
"""

from __future__ import annotations

import copy
import json
import pathlib
import random
import tomllib

TABLE = pathlib.Path(__file__).resolve().parents[2] / "weft/config/settings.toml"
# Sections whose "auto" means the default to DeepSpeed; elsewhere the trainer resolves it, which is weft's doing alone.
STRICT_AUTO = ("fp16", "zero_optimization.offload_param", "tensorboard", "csv_monitor", "wandb", "comms_logger", "timers.throughput")
# Read by Python code above the reader, or made elsewhere here.
LEFT_OUT = ("sequence_parallel_size", "data_parallel_size", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
# Sections that say little about data-parallel training: seldom in a config, so that most configs are not about them.
RARE = ("zero_optimization.zenflow", "tensor_parallel", "expert_parallel", "compile", "hybrid_engine", "weight_quantization",
        "data_efficiency", "autotuning", "comet", "pipeline")
UNKNOWN = ["overlap_com", "stage3_sub_group_size", "cpu_offload_params", "find_unused_parameters", "fused", "_comment", "//", "foo",
           "zero_allow_untested_optimizer", "use_dynamic_tiling", "opt_level", "grad_accum_dtype", "Stage", "enable", "buffer_size", "loss_scale"]
WRONG = ["yes please", "", "1e8", "0x10", " 7 ", "1_000", "+5", "12.0", "12.5", "-3", "true", "TRUE", "on", "n", "None", "auto ", None, True, False,
         [], {}, [1, 2], {"a": 1}, 2, -1, 0, 0.5, 1.5, -0.25, 1e20, 9223372036854775807, 9223372036854775808, 1e-9, 3.0, "fp16", "cpu", "2"]


def rows() -> list[tuple[str, dict]]:
    """(section path, row) for every key but weft's own."""
    table = tomllib.loads(TABLE.read_text())
    return [(s["path"], k) for s in table["section"] if s["path"] != "weft" for k in s["keys"]]


# Settings that DeepSpeed looks at more closely than their type says.
CHOICES = {
    "select_strategy": ["auto", "step", "epoch"], "select_interval": ["auto", 2], "update_interval": ["auto", 4],
    "passes": [[], ["z1"], ["z3"]], "keep_in_fp32_modules": ["auto", [], ["norm*"]], "results_dir": ["a"], "exps_dir": ["b"],
    "loss_scale_window": [500, 1000, 1], "min_loss_scale": [1, 2],
}
SPELLINGS = {"fp16": ["float16", "half", "torch.float16"], "bf16": ["bfloat16", "torch.bfloat16"], "fp32": ["float32", "float", "torch.float32"]}


def plausible(rng: random.Random, row: dict):
    kind = row["type"]
    if row["key"] in CHOICES:
        return copy.deepcopy(rng.choice(CHOICES[row["key"]]))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "int":
        low, high = 0, 10**9
        text = row.get("range", "")
        if text == "0..3":
            low, high = 0, 3
        elif text.startswith(">0"):
            low = 1
        return rng.choice([rng.randint(low, min(high, low + 9)), rng.randint(low, high), row.get("default", low + 1)])
    if kind == "float":
        bounds = row.get("range", "")
        return rng.choice([0.1, 0.5, 0.75, 0.9, 0.0 if bounds.startswith(("0..", ">=0")) else 0.25, 1.0 if ".." not in bounds else 0.5])
    if kind in ("enum", "dtype"):
        value = rng.choice(row["values"])
        if row.get("spellings") and rng.random() < 0.5:
            value = rng.choice(SPELLINGS[value])
        return rng.choice([value.upper(), value.lower(), value.title()]) if row.get("fold") and rng.random() < 0.3 else value
    if kind == "strings":
        return rng.choice([[], ["a"], ["model.layer", "b", "b"]])
    if kind == "object":
        return rng.choice([{}, {"enabled": False}])
    if kind == "list":
        return rng.choice([[], ["all_reduce"]])
    if kind in ("any", "null"):
        return copy.deepcopy(row.get("default"))
    return rng.choice(["runs/a", "", "name with space", "Größe"])


class Generator:
    def __init__(self, seed: int, world: int):
        self.rng, self.world, self.rows = random.Random(seed), world, rows()

    def config(self) -> dict:
        rng = self.rng
        wildness = rng.choice([0, 0, 0.02, 0.1, 0.3])
        config = self.batch(wildness)
        left_out = {section for section in RARE if rng.random() > 0.04}
        for section, row in self.rows:
            if section in left_out:
                continue
            often = 0.25 if section.startswith("zero_optimization") or section in ("fp16", "bf16", "") else 0.12
            wanted = rng.random() < often * rng.choice([0, 0.3, 1])
            is_odd = "removed" in row or "deprecated" in row or row["key"] == "legacy_stage1"
            if row["key"] in config or (is_odd and rng.random() > wildness / 4):
                continue
            if row["key"] in LEFT_OUT or not wanted or row.get("standing") == "refused" and rng.random() > 0.05:
                continue
            self.put(config, section, row, self.value(row, section, wildness))
        self.optimizer(config)
        if rng.random() > 0.1 + wildness:
            self.reconcile(config)
        self.spoil(config, wildness)
        return config

    @staticmethod
    def reconcile(config: dict) -> None:
        """Takes out what cannot stand together, so that most configs are not refused for the same few reasons."""
        zero, fp16, bf16 = (config.get(name) if isinstance(config.get(name), dict) else {} for name in ("zero_optimization", "fp16", "bf16"))
        stage = zero.get("stage", 0)
        offload = zero.get("offload_optimizer")
        if stage != 3 and isinstance(offload, dict):
            offload.pop("ratio", None)
        if stage not in (1, 2):
            zero.pop("compute_grad_norm", None)
        if stage == 3:
            config.pop("gradient_allreduce_op", None)
        if stage not in (1, 2, 3) or not bf16.get("bf16_master_weights_and_grads"):
            bf16.pop("bf16_optimizer_states", None)
        if stage not in (1, 2, 3):
            bf16.pop("bf16_master_weights_and_grads", None)
        if bf16.get("enabled") is True:
            fp16.pop("enabled", None)

    def value(self, row: dict, section: str, wildness: float):
        if self.rng.random() < wildness:
            return self.wrong()
        if section in STRICT_AUTO and self.rng.random() < 0.03:
            return "auto"
        if row.get("null") and self.rng.random() < 0.1:
            return None
        return plausible(self.rng, row)

    def wrong(self):
        return copy.deepcopy(self.rng.choice(WRONG))  # a later mutation must not reach the table

    def put(self, config: dict, section: str, row: dict, value) -> None:
        target = config
        for name in section.split(".") if section else []:
            inner = target.setdefault(name, {})
            if not isinstance(inner, dict):
                return
            target = inner
        names = [row["key"], *row.get("aliases", [])]
        target[self.rng.choice(names)] = value
        if len(names) > 1 and self.rng.random() < 0.01:
            target.update({name: value for name in names})

    def batch(self, wildness: float) -> dict:
        rng, world = self.rng, self.world
        micro, steps = rng.choice([1, 2, 4, 8, 3]), rng.choice([1, 2, 4, 16, 5])
        trio = {"train_batch_size": micro * steps * world, "train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps}
        kept = {key: value for key, value in trio.items() if rng.random() < 0.65}
        if rng.random() < 0.7 and "train_batch_size" not in kept:
            kept["train_micro_batch_size_per_gpu"] = micro
        for key in kept:
            if rng.random() < 0.03 + wildness / 2:
                kept[key] = rng.choice([0, -1, 1, 7, 12, 64, 1000, kept[key] + 1, kept[key] * 2, None, float(kept[key]), kept[key] + 0.5, "4", True])
        return kept

    def optimizer(self, config: dict) -> None:
        if self.rng.random() < 0.5:
            config.setdefault("optimizer", {})
            if isinstance(config["optimizer"], dict):
                config["optimizer"] |= {"type": self.rng.choice(["AdamW", "Adam", "adamw", "SGD", "Lion"]), "params": {"lr": 1e-5}}

    def spoil(self, config: dict, wildness: float) -> None:
        rng = self.rng
        if rng.random() < wildness:
            self.somewhere(config)[rng.choice(UNKNOWN)] = self.wrong()
        if rng.random() < wildness / 4:
            sections = [key for key, value in config.items() if isinstance(value, dict)]
            if sections:
                config[rng.choice(sections)] = rng.choice([None, True, False, [], "auto", 3, "x", {}])
        if rng.random() < wildness / 6:
            zero = config.get("zero_optimization")
            inner = [key for key, value in zero.items() if isinstance(value, dict)] if isinstance(zero, dict) else []
            if inner:
                zero[rng.choice(inner)] = rng.choice([None, True, [], "auto", 3, {}])

    def somewhere(self, config: dict) -> dict:
        places = [config]
        for value in config.values():
            if isinstance(value, dict):
                places += [value] + [inner for inner in value.values() if isinstance(inner, dict)]
        return self.rng.choice(places)


class Writer:
    """One config as text: plain JSON, or HJSON with comments, bare keys, line ends for commas and odd number forms."""

    damaged = 0.1  # the part of the HJSON texts that loses or gains a character or two

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.hjson = rng.random() < 0.5
        self.newline = rng.choice(["\n", "\n", "\r\n"])
        self.indent = rng.choice(["  ", "    ", "\t", ""])
        self.oddity = rng.choice([0, 0.05, 0.3]) if self.hjson else 0

    def text(self, config: dict) -> str:
        if not self.hjson:
            return json.dumps(config, indent=self.rng.choice([None, 1, 2, 4]), ensure_ascii=self.rng.random() < 0.5)
        body = self.object(config, 0)
        if self.rng.random() < 0.05:
            body = body[1:-1]  # HJSON allows the outermost braces to be left out
        text = self.comment() + body + self.newline + self.comment()
        return self.damage(text) if self.rng.random() < self.damaged else text

    def damage(self, text: str) -> str:
        at = self.rng.randrange(len(text) + 1)
        piece = self.rng.choice(["", "", ",", "}", "{", "]", '"', "'", ":", "#", "//", "/*", "*/", "\\", "x", "\n", "1", "'''", "\t", "é"])
        return text[:at] + piece + text[at + (piece == "") + self.rng.choice([0, 0, 1]) :]

    def comment(self) -> str:
        if self.rng.random() >= self.oddity:
            return ""
        return self.rng.choice(["# a note", "// a note: {", f"/* two{self.newline} lines */", "#", "//é", "/**/ //"]) + self.newline

    def object(self, value: dict, depth: int) -> str:
        out = "{" + self.newline
        items = list(value.items())
        if items and self.rng.random() < 0.004:
            items.append(self.rng.choice(items))  # a duplicate
        for i, (key, item) in enumerate(items):
            out += self.comment() + self.indent * (depth + 1) + self.key(key) + self.rng.choice([":", ": ", " : "])
            out += self.value(item, depth + 1) + self.end(item, i + 1 == len(items))
        return out + self.indent * depth + "}"

    def end(self, item, last: bool) -> str:
        odd = self.rng.random() < self.oddity
        if last:
            return ("," if odd else "") + self.newline
        return ("" if odd else ",") + (self.rng.choice(["", " // why", " # why"]) if self.rng.random() < self.oddity else "") + self.newline

    def key(self, key: str) -> str:
        bare = key.replace("_", "").isalnum() and key.isascii()
        if bare and self.rng.random() < self.oddity:
            return key
        return f"'{key}'" if bare and self.rng.random() < self.oddity / 4 else json.dumps(key, ensure_ascii=False)

    def value(self, value, depth: int) -> str:
        if isinstance(value, dict):
            return self.object(value, depth)
        if isinstance(value, list):
            return "[" + (self.rng.choice([", ", ",", " , "]).join(self.value(item, depth) for item in value)) + "]"
        if self.rng.random() < self.oddity / 12:
            return self.bare(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.number(value)
        if isinstance(value, str) and "'" not in value and self.rng.random() < self.oddity / 4:
            return f"'{value}'"
        return json.dumps(value, ensure_ascii=False)

    def bare(self, value) -> str:
        """Without quotes: HJSON takes the rest of the line, comma and all, for a text. Python's words and unreal numbers too."""
        if isinstance(value, str) and value.strip():
            return value
        return str(value) if isinstance(value, bool) or value is None else self.rng.choice(["Infinity", "inf", "NaN", "-inf", "1e400", "0x10", "1,000"])

    def number(self, value) -> str:
        if self.rng.random() >= self.oddity:
            return json.dumps(value)
        if isinstance(value, int) and value and value % 1000 == 0:
            digits = str(value).rstrip("0")
            exponent = len(str(value)) - len(digits)
            return self.rng.choice([f"{digits}e{exponent}", f"{digits}E+{exponent}", f"{digits}.0e{exponent}", f"{value}.0"])
        if isinstance(value, int):
            return self.rng.choice([f"{value}.0", f"{value}e0", f"{value}"])
        return self.rng.choice([repr(value), f"{value:.12e}", f"{value:.3f}"])
