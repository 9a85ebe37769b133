"""`weft check`, `weft schema` and `weft completion` as a user runs them."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

MISSPELT = """{
  // a run of last year
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 2,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "overlap_com": true
  }
}
"""
CLEAN = '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_comm": true}}\n'

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the tests' own shell says must not change what is judged.
QUIET = {"LC_ALL": "C.UTF-8"}
JUDGED = ("WORLD_SIZE", "OMP_NUM_THREADS", "DS_", "DEEPSPEED_", "NCCL_", "CUDA_", "TORCH_", "PYTORCH_")


@pytest.fixture(autouse=True)
def no_judged_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith(JUDGED):
            monkeypatch.delenv(name)


@pytest.fixture
def ds(tmp_path):
    (tmp_path / "ds.json").write_text(MISSPELT)
    return "ds.json"


def check(weft, *arguments, env=None):
    return weft("check", *arguments, env=QUIET | (env or {}))


def problems_of(done) -> dict[str, dict]:
    return {problem["rule"]: problem for problem in json.loads(done.out)["problems"]}


def test_a_misspelt_key_is_shown_where_it_stands(weft, ds):
    done = check(weft, ds, "--world", "8")
    assert done.code == 1, done.err
    assert "read as DeepSpeed 0.19.8, world 8 (from --world)" in done.out
    assert "error[keys/misspelt] ds.json:8:5" in done.out
    assert '8    |     "overlap_com": true\n' in done.out
    assert "     |     ^^^^^^^^^^^^^" in done.out
    assert "overlap_comm" in done.out and "❌" in done.out
    assert "would refuse this file" in done.out.splitlines()[-1]
    assert done.err == ""


def test_no_line_is_wider_than_the_terminal(weft, ds):
    for columns in (40, 80, 120):
        done = check(weft, ds, env={"COLUMNS": str(columns)})
        assert all(len(line) <= columns for line in done.out.splitlines()), done.out


def test_json_has_the_problem_and_the_resolved_config(weft, ds):
    done = check(weft, ds, "--world", "8", "--json")
    assert done.code == 1
    out = json.loads(done.out)
    assert (out["schema"], out["file"], out["semantics"]) == (1, "ds.json", "deepspeed-0.19.8")
    assert out["world"]["value"] == 8
    problem = problems_of(done)["keys/misspelt"]
    assert (problem["severity"], problem["line"], problem["col"], problem["end_col"]) == ("error", 8, 5, 18)
    assert problem["path"] == "zero_optimization.overlap_com" and problem["fixable"] and problem["deepspeed_refuses"]
    assert out["verdict"]["errors"] >= 1 and out["verdict"]["ok"] is False
    assert out["resolved"]["zero_optimization"]["stage"] == 2
    assert out["origins"]["zero_optimization.stage"] == "ds.json:7:14"
    assert out["resolved"]["gradient_accumulation_steps"] == 1


def test_a_good_config_exits_with_0(weft, tmp_path):
    (tmp_path / "good.json").write_text(CLEAN)
    done = check(weft, "good.json", "--fail-on", "error")
    assert done.code == 0, done.out


def test_fail_on_decides_the_exit_code(weft, ds):
    assert check(weft, ds, "--fail-on", "never").code == 0
    assert check(weft, ds, "--fail-on", "error").code == 1


def test_an_unreadable_file_is_exit_2_with_its_place(weft, tmp_path):
    (tmp_path / "bad.json").write_text('{\n  "a": [1, 2\n')
    done = check(weft, "bad.json")
    assert done.code == 2
    assert "error[syntax/hjson] bad.json:" in done.err and " |" in done.err
    as_json = check(weft, "bad.json", "--json")
    assert as_json.code == 2
    assert json.loads(as_json.out)["problems"][0]["rule"] == "syntax/hjson"


def test_a_missing_file_is_exit_2(weft, ds):
    done = check(weft, "dss.json")
    assert done.code == 2 and "did you mean ds.json?" in done.err


def test_several_files_are_all_reported(weft, ds, tmp_path):
    (tmp_path / "bad.json").write_text("[")
    done = check(weft, "bad.json", ds)
    assert done.code == 2
    assert "error[keys/misspelt]" in done.out and "bad.json" in done.err
    out = json.loads(check(weft, "bad.json", ds, "--json").out)
    assert [file["file"] for file in out["files"]] == ["bad.json", "ds.json"]


def test_sarif_is_one_run_over_all_files(weft, ds, tmp_path):
    (tmp_path / "bad.json").write_text("[")
    out = json.loads(check(weft, ds, "bad.json", "--sarif").out)
    assert out["version"] == "2.1.0"
    (run,) = out["runs"]
    assert run["tool"]["driver"]["name"] == "weft"
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    found = {result["ruleId"]: result for result in run["results"]}
    region = found["keys/misspelt"]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 8, "startColumn": 5, "endLine": 8, "endColumn": 18}
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")


def test_chinese_by_flag_and_by_locale(weft, ds):
    assert "错误[keys/misspelt]" in check(weft, ds, "--lang", "zh").out
    assert "错误[keys/misspelt]" in weft("check", ds, env={"LC_ALL": "", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}).out
    assert "error[keys/misspelt]" in weft("check", ds, "--lang", "en", env={"LC_ALL": "zh_CN.UTF-8"}).out


def test_world_comes_from_the_environment_unless_a_flag_says_it(weft, ds):
    def world(*flags, value="4"):
        return json.loads(check(weft, ds, "--json", *flags, env={"WORLD_SIZE": value}).out)["world"]

    assert world() == {"value": 4, "from": "from WORLD_SIZE"}
    assert world("--world", "8") == {"value": 8, "from": "from --world"}
    assert world("--no-env")["value"] == 1
    done = check(weft, ds, env={"WORLD_SIZE": "many"})
    assert done.code == 2 and "WORLD_SIZE is 'many'" in done.err


def test_explain_says_value_origin_and_default(weft, ds):
    done = check(weft, ds, "--explain", "overlap_comm")
    assert done.code == 0
    assert "zero_optimization.overlap_comm" in done.out and "false" in done.out and "derived" in done.out
    out = json.loads(check(weft, ds, "--explain", "zero_optimization.stage", "--json").out)
    assert (out["value"], out["from"]) == (2, "ds.json:7:14")
    assert json.loads(check(weft, "--explain", "gradient_clipping", "--as", "0.18", "--json").out)["value"] == 0.0
    wrong = check(weft, ds, "--explain", "overlap_com")
    assert wrong.code == 2 and "did you mean overlap_comm?" in wrong.err


def test_a_secret_is_not_printed(weft, tmp_path):
    (tmp_path / "ds.json").write_text('{"train_batch_size": 8,\n "weft": {"dashboard": {"host": "0.0.0.0", "token": "SECRETTOKEN123"}}}')
    for flags in ([], ["--json"], ["--sarif"], ["--explain", "weft.dashboard.token"], ["--explain", "weft.dashboard.token", "--json"]):
        done = check(weft, "ds.json", *flags)
        assert done.code == 0, done.err
        assert "SECRET" not in done.out + done.err, flags


@pytest.mark.parametrize(
    "text",
    [
        '{"weft": {"dashboard": {"token": "SECRETTOKEN123", "port": 70000}}}',
        '{"weft": {"dashboard": {"Token": "SECRETTOKEN123", "port": 70000}}}',
        '{"weft": {"token": "SECRETTOKEN123"}}',
        '{"comet": {"apikey": "SECRETTOKEN123", "enabled": 3}}',
        '{"weft": {"dashboard": {"token": "SECRETTOKEN123\\x"}}}',
        '{"weft": {"dashboard": {"token": "SECRETTOKEN123, "port": 1}}}',
        '{"weft": {"dashboard": {"token": "SECRETTOKEN123}}}',
        '{"weft": {"dashboard": {"token" "SECRETTOKEN123"}}}',
    ],
)
def test_a_secret_is_not_printed_with_what_is_wrong_beside_it(weft, tmp_path, text):
    (tmp_path / "ds.json").write_text(text)
    for flags in ([], ["--json"], ["--sarif"], ["--fix", "out.json"], ["--fix", "out.json", "--json"]):
        done = check(weft, "ds.json", *flags)
        assert done.code != 0, done.out
        assert "SECRET" not in done.out + done.err, flags


REFUSED = {
    "muon": {"optimizer": {"type": "Muon"}},
    "torch_class": {"optimizer": {"type": "RMSprop"}},
    "schedule": {"scheduler": {"type": "StepLR", "params": {"step_size": 5}}},
    "amsgrad": {"optimizer": {"type": "AdamW", "params": {"amsgrad": True}}},
    "states": {"optimizer": {"type": "AdamW", "params": {"fp32_optimizer_states": False}}},
    "rate": {"optimizer": {"type": "AdamW", "params": {"lr": -0.001}}},
    "int8_type": {"weft": {"compress": "int8"}, "communication_data_type": "bf16"},
    "int8_fp16": {"weft": {"compress": "int8"}, "fp16": {"enabled": True}},
    "int8_stage3": {"weft": {"compress": "int8"}, "zero_optimization": {"stage": 3}},
    "lamb_masters": {"optimizer": {"type": "Lamb"}, "bf16": {"enabled": True, "bf16_master_weights_and_grads": True}, "zero_optimization": {"stage": 1}},
    "hysteresis": {"fp16": {"enabled": True, "hysteresis": 0}},
    "port": {"weft": {"dashboard": {"port": 70000}}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_run_refuses_is_an_error(weft, tiny, tmp_path, name):
    config = {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}} | REFUSED[name]
    (tmp_path / "ds.json").write_text(json.dumps(config))
    done = check(weft, "ds.json", "--world", "1", "--json")
    assert done.code == 1
    assert json.loads(done.out)["verdict"]["errors"] == 1, done.out
    assert weft("train", *tiny, "--data", "random", "--steps", "1", "--config", "ds.json").code == 2


def test_fix_writes_a_config_without_the_slip(weft, ds, tmp_path):
    done = check(weft, ds, "--world", "8", "--fix", "fixed.json")
    assert "fixed keys/misspelt" in done.out, done.out + done.err
    text = (tmp_path / "fixed.json").read_text()
    assert '"overlap_comm": true' in text and "// a run of last year" in text
    assert (tmp_path / "ds.json").read_text() == MISSPELT
    assert "keys/misspelt" not in problems_of(check(weft, "fixed.json", "--world", "8", "--json"))
    out = json.loads(check(weft, ds, "--world", "8", "--fix", "fixed.json", "--json").out)
    assert "keys/misspelt" in [problem["rule"] for problem in out["fixed"]]


def test_list_rules_names_each_rule_once(weft):
    done = check(weft, "--list-rules")
    assert done.code == 0
    rules = json.loads(check(weft, "--list-rules", "--json").out)["rules"]
    ids = [rule["rule"] for rule in rules]
    assert "keys/misspelt" in ids and len(ids) == len(set(ids))
    assert all(rule["what"] and rule["why"] for rule in rules)
    assert len(done.out.splitlines()) == len(ids)


def test_the_page_of_rules_is_up_to_date(weft):
    page = check(weft, "--list-rules", "--markdown").out
    assert (ROOT / "docs/rules.md").read_text() == page, "weft check --list-rules --markdown > docs/rules.md"


@pytest.mark.parametrize(("preset", "machine"), [("standard", ("--gpu-mem", "24G")), ("high-performance", ("--gpu-mem", "80G", "--link", "nvlink"))])
def test_a_preset_has_no_problem_of_its_own(weft, tmp_path, preset, machine):
    flags = ("--world", "8", *machine)
    assert check(weft, "--preset", preset, *flags, "-o", "p.json").code == 0
    assert (tmp_path / "p.json").read_text() == check(weft, "--preset", preset, *flags).out
    done = check(weft, "p.json", *flags)
    assert done.code == 0, done.out
    again = check(weft, "--preset", preset, *flags, "-o", "p.json")
    assert again.code == 2 and "--force" in again.err
    assert check(weft, "--preset", preset, *flags, "-o", "p.json", "--force").code == 0


@pytest.mark.parametrize("symptom", ["oom", "comm-error", "diverges", "slow"])
def test_a_symptom_gets_numbered_steps(weft, ds, symptom):
    done = check(weft, "--symptom", symptom)
    assert done.code == 0 and done.out.startswith("1. "), done.err
    out = json.loads(check(weft, "--symptom", symptom, "--config", ds, "--json").out)
    assert out["file"] == ds and out["steps"] and all(step["what"] for step in out["steps"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no file to check"),
        (("ds.json", "--wrold", "8"), "did you mean --world?"),
        (("ds.json", "--world", "0"), "0 is outside 1.."),
        (("ds.json", "--link", "token-ring"), "'token-ring' is not one of nvlink, pcie4"),
        (("ds.json", "--link", "nvlnk"), "did you mean nvlink?"),
        (("ds.json", "--gpu-mem", "lots"), "lots"),
        (("ds.json", "--as", "9.9"), "not known here"),
        (("ds.json", "--json", "--sarif"), "excludes"),
        (("ds.json", "--explain", "stage", "--list-rules"), "one thing at a time"),
        (("ds.json", "ds.json", "--fix", "x.json"), "--fix takes one file"),
        (("ds.json", "-o", "x.json"), "belong to --preset"),
        (("ds.json", "--config", "x.json"), "--config belongs to --symptom"),
    ],
)
def test_wrong_usage_is_exit_2_with_the_reason(weft, ds, arguments, words):
    done = check(weft, *arguments)
    assert done.code == 2 and words in done.err, done.err


def test_help_has_examples_and_exit_codes(weft):
    text = weft("check", "--help").out
    assert "Example:" in text and "Exit codes: 0" in text
    for flag in ("--world", "--gpu-mem", "--params", "--hidden-size", "--link", "--as", "--lang", "--json", "--sarif", "--fix", "--explain",
                 "--list-rules", "--fail-on", "--preset", "--symptom", "--env"):
        assert flag in text, flag


def test_the_schema_is_json_and_knows_the_settings(weft):
    done = weft("schema")
    assert done.code == 0
    schema = json.loads(done.out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    zero = schema["properties"]["zero_optimization"]
    assert zero["additionalProperties"] is False and schema["additionalProperties"] is True
    stage = zero["properties"]["stage"]
    assert stage["anyOf"] == [{"type": "integer", "minimum": 0.0, "maximum": 3.0}, {"const": "auto"}] and stage["default"] == 0
    assert "prefetch_bucket_size" in zero["properties"], "an alias"
    assert zero["properties"]["offload_optimizer"]["properties"]["device"]["anyOf"][0]["enum"][:3] == ["none", "cpu", "nvme"]
    assert schema["properties"]["bfloat16"]["deprecated"] is True
    assert schema["properties"]["amp"]["not"] == {}


KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}


def accepts(schema: dict, value) -> bool:
    """As much of JSON Schema as `weft schema` uses."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool)) for kind in kinds):
        return False
    if "not" in schema or value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return False
    if "anyOf" in schema and not any(accepts(one, value) for one in schema["anyOf"]):
        return False
    if isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, (int, float)) and not schema.get("exclusiveMinimum", value - 1) < value:
        return False
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    if schema.get("additionalProperties") is False and set(value) - set(known):
        return False
    return all(accepts(known[key], inner) for key, inner in value.items() if key in known)


@pytest.mark.parametrize(
    ("config", "good"),
    [
        (json.loads(CLEAN), True),
        ({"a_comment": 1, "train_batch_size": "auto"}, True),
        ({"train_batch_size": 0}, False),
        ({"train_batch_size": "many"}, False),
        ({"zero_optimization": {"overlap_com": True}}, False),
        ({"zero_optimization": {"stage": 4}}, False),
        ({"zero_optimization": {"offload_param": None}}, True),
        ({"zero_optimization": {"offload_param": {"device": "gpu"}}}, False),
        ({"communication_data_type": "FP16"}, True),
        ({"data_types": {"grad_accum_dtype": "torch.bfloat16"}}, True),
        ({"amp": {}}, False),
    ],
)
def test_the_schema_tells_good_from_bad(weft, config, good):
    assert accepts(json.loads(weft("schema").out), config) is good


def completions(build_dir: pathlib.Path, *words: str) -> list[str]:
    script = 'source <(weft completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weft; printf "%s\\n" "${COMPREPLY[@]}"'
    env = os.environ | {"PATH": f"{build_dir / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script, "bash", "weft", *words], capture_output=True, text=True, env=env, timeout=30, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_flags_values_and_settings(build_dir):
    assert completions(build_dir, "ch") == ["check"]
    assert completions(build_dir, "check", "--exp") == ["--explain"]
    assert completions(build_dir, "completion", "z") == ["zsh"]
    assert completions(build_dir, "train", "--micro") == ["--micro-batch"]
    assert completions(build_dir, "check", "x.json", "--link", "pc") == ["pcie4", "pcie3"]
    assert completions(build_dir, "check", "--explain", "zero_optimization.overlap") == ["zero_optimization.overlap_comm"]
    assert completions(build_dir, "check", "ds") == [], "file names are the shell's"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_scripts(weft, tmp_path, shell):
    done = weft("completion", shell)
    assert done.code == 0 and "weft completion words" in done.out
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(done.out)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=30)


def test_completion_of_another_shell_is_refused(weft):
    done = weft("completion", "tcsh")
    assert done.code == 2 and "tcsh" in done.err
