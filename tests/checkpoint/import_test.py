"""weft ckpt import, and weights of torch.save: files that Python's torch writes come out as Python has them, byte for byte."""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="Torch_DIR points at a libtorch without Python; nothing to compare with")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is not installed beside torch: tools/setup installs both")
load_file, save_file = safetensors_torch.load_file, safetensors_torch.save_file

from tests.checkpoint import deepspeed_layout  # noqa: E402
from tests.reference.deepspeed import deepspeed_python, needs_deepspeed  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    def raw(t):
        return t.contiguous().flatten().view(torch.uint8) if t.numel() else torch.empty(0, dtype=torch.uint8)

    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(raw(a), raw(b))


def tensors_of(store: pathlib.Path) -> dict[str, torch.Tensor]:
    [step] = [path for path in store.iterdir() if path.name.startswith("step_")]
    return load_file(step / "rank_00000.safetensors")


def expect(found: dict, wanted: dict) -> None:
    """Tensors without elements are in the manifest only."""
    wanted = {name: value for name, value in wanted.items() if value.numel() > 0}
    assert sorted(found) == sorted(wanted)
    assert [name for name in wanted if not same_bits(found[name], wanted[name])] == []


@pytest.fixture
def imports(weft, tmp_path):
    """Imports into a fresh store, and returns what the command said and the tensors that are there."""

    def run(source: pathlib.Path, *flags: str) -> tuple[dict, dict[str, torch.Tensor]]:
        store = tmp_path / f"store{len(list(tmp_path.glob('store*')))}"
        done = weft("ckpt", "import", str(source), str(store), "--json", *flags)
        assert done.code == 0, done.err
        assert weft("ckpt", "verify", str(store)).code == 0
        return json.loads(done.out), tensors_of(store)

    return run


def odd_tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    base, whole = torch.randn(6, 10), torch.randn(4, 5, 6)
    return {
        "plain": torch.randn(7, 3), "turned": base.t(), "rows": base[1:5:2], "column": base[:, 3], "block": whole[1:3, :, 2:5],
        "permuted": whole.permute(2, 0, 1), "spread": torch.randn(1, 4).expand(3, 4), "number": torch.tensor(2.5), "none": torch.empty(0, 4),
        "half": torch.randn(33).half(), "brain": torch.randn(5, 5).bfloat16().t(), "double": torch.randn(9).double(), "long": torch.arange(2**40, 2**40 + 5),
        "int": torch.arange(-3, 9, dtype=torch.int32)[::3], "short": torch.arange(4, dtype=torch.int16), "char": torch.arange(-4, 4, dtype=torch.int8),
        "byte": torch.arange(250, 256, dtype=torch.uint8), "truth": torch.tensor([True, False, True]), "parameter": torch.nn.Parameter(torch.randn(3, 2)),
        "bits": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45]),
    }


# --- Weights ----------------------------------------------------------------------------------------------------------


def test_every_byte_of_odd_tensors_comes_out(imports, tmp_path):
    tensors = odd_tensors()
    torch.save(tensors, tmp_path / "m.bin")
    said, found = imports(tmp_path / "m.bin")
    expect(found, {f"param/{name}": value.detach() for name, value in tensors.items()})
    assert said["from"] == "weights of torch.save" and said["step"] == 0 and said["left_out"] == [] and said["tensors"] == len(tensors)


def test_a_large_tensor_comes_in_pieces(imports, tmp_path):
    big = torch.arange(3_000_000, dtype=torch.float32).view(1500, 2000)
    torch.save({"w": big.t(), "v": big[3:]}, tmp_path / "m.pt")
    expect(imports(tmp_path / "m.pt")[1], {"param/w": big.t(), "param/v": big[3:]})


def test_weights_inside_of_a_training_script_s_dict(imports, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    extra = {"epoch": 3, "args": argparse.Namespace(lr=0.1, names=["a"]), "best": 0.5, "seed": 2**70, "counts": collections.Counter(a=2)}
    torch.save({"state_dict": model.state_dict(), "optimizer": torch.optim.Adam(model.parameters()).state_dict(), **extra}, tmp_path / "c.pt")
    said, found = imports(tmp_path / "c.pt")
    expect(found, {f"param/{name}": value for name, value in model.state_dict().items()})
    assert "'args', argparse.Namespace" in said["left_out"] and "'epoch', an integer" in said["left_out"]


def test_one_tensor_under_two_names_is_one(imports, tmp_path):
    weight = torch.randn(4, 3)
    torch.save({"embed": weight, "head": weight, "other": weight.clone(), "part": weight[:2]}, tmp_path / "m.bin")
    said, found = imports(tmp_path / "m.bin")
    expect(found, {"param/embed": weight, "param/other": weight, "param/part": weight[:2]})
    assert said["left_out"] == ["'head', which is 'embed' under another name"]


def test_folders_as_hugging_face_has_them(imports, tmp_path):
    parts = [{"a": torch.randn(3)}, {"b": torch.randn(2, 2).bfloat16(), "c": torch.arange(4)}]
    wanted = {f"param/{name}": value for part in parts for name, value in part.items()}
    for kind, save in (("pytorch_model.bin", torch.save), ("model.safetensors", save_file)):
        stem, end = kind.split(".")
        folder = tmp_path / stem
        folder.mkdir()
        weight_map = {}
        for i, part in enumerate(parts):
            name = f"{stem}-0000{i + 1}-of-00002.{end}"
            save(part, folder / name)
            weight_map |= {tensor: name for tensor in part}
        (folder / f"{kind}.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
        expect(imports(folder)[1], wanted)
        expect(imports(folder / f"{kind}.index.json")[1], wanted)
        save(parts[0], folder / kind)
        expect(imports(folder)[1], {"param/a": parts[0]["a"]})


def test_a_run_starts_from_a_pickle_as_from_safetensors(weft, tiny, tmp_path):
    flags = [*tiny, "--steps", "2", "--data", "random"]
    assert weft("train", *flags, "--export", str(tmp_path / "w.safetensors")).code == 0
    weights = load_file(tmp_path / "w.safetensors")
    torch.save(collections.OrderedDict(weights), tmp_path / "pytorch_model.bin")
    runs = []
    for start in ("w.safetensors", "pytorch_model.bin"):
        done = weft("train", *flags, "--seed", "7", "--init", str(tmp_path / start), "--json", "-")
        assert done.code == 0, done.err
        runs.append(json.loads(done.out)["loss_bits"])
    assert runs[0] == runs[1]
    torch.save({"nothing": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    done = weft("train", *flags, "--init", str(tmp_path / "pytorch_model.bin"))
    assert done.code == 2 and "'nothing' is not a tensor of this model" in done.err


def test_an_imported_step_is_exported_as_it_came(weft, tmp_path):
    weights = {"a.weight": torch.randn(3, 4), "a.bias": torch.randn(3)}
    torch.save(weights, tmp_path / "m.bin")
    assert weft("ckpt", "import", str(tmp_path / "m.bin"), str(tmp_path / "store"), "--step", "7").code == 0
    assert weft("ckpt", "export", str(tmp_path / "store"), str(tmp_path / "out")).code == 0
    expect(load_file(tmp_path / "out" / "model.safetensors"), weights)
    again = weft("ckpt", "import", str(tmp_path / "m.bin"), str(tmp_path / "store"), "--step", "7")
    assert again.code == 2 and "has a step 7 already" in again.err
    assert weft("ckpt", "import", str(tmp_path / "m.bin"), str(tmp_path / "store"), "--step", "8").code == 0


# --- What is refused --------------------------------------------------------------------------------------------------


class Evil:
    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


def test_nothing_in_a_file_is_run(weft, tmp_path):
    marker = tmp_path / "owned"
    for call in ((os.system, (f"touch {marker}",)), (eval, (f"open({str(marker)!r}, 'w')",)), (subprocess.Popen, (["touch", str(marker)],)),
                 (getattr, ("x", "upper"))):
        torch.save({"w": torch.ones(2), "x": Evil(call)}, tmp_path / "evil.bin")
        done = weft("ckpt", "import", str(tmp_path / "evil.bin"), str(tmp_path / "store"))
        assert done.code == 2 and "it asks for" in done.err and call[0].__name__ in done.err and "evil.bin, data.pkl, byte" in done.err
    assert not marker.exists() and not (tmp_path / "store").exists()


def test_what_is_no_file_of_weights_is_said(weft, tmp_path):
    def why(source) -> str:
        done = weft("ckpt", "import", str(source), str(tmp_path / "store"))
        assert done.code == 2, done.err
        return done.err

    torch.save({"w": torch.ones(2)}, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert "before 1.6" in why(tmp_path / "old.bin")
    torch.save([torch.ones(2)], tmp_path / "list.bin")
    assert "a list of 1" in why(tmp_path / "list.bin")
    torch.save({"w": torch.ones(2, dtype=torch.complex64)}, tmp_path / "complex.bin")
    assert "'w' has elements of a type" in why(tmp_path / "complex.bin")
    torch.save({"w": torch.ones(2)}, tmp_path / "five.bin", pickle_protocol=4)
    assert "protocol 2" in why(tmp_path / "five.bin")
    torch.save({"w": torch.ones(2)}, tmp_path / "good.bin")
    with zipfile.ZipFile(tmp_path / "good.bin") as good, zipfile.ZipFile(tmp_path / "small.bin", "w", zipfile.ZIP_DEFLATED) as small:
        for name in good.namelist():
            small.writestr(name, good.read(name))
    assert "compressed" in why(tmp_path / "small.bin")
    (tmp_path / "empty").mkdir()
    assert "there are no weights in this folder" in why(tmp_path / "empty")
    why(tmp_path / "nowhere")
    assert not (tmp_path / "store").exists()


# --- DeepSpeed's layout -----------------------------------------------------------------------------------------------

GROUPS = [["embed", "deep.weight", "back.weight"], ["norm", "back.bias", "one"]]


def made_up() -> dict:
    torch.manual_seed(5)
    shapes = {"embed": (13, 7), "deep.weight": (11, 7), "back.weight": (7, 11), "norm": (7,), "back.bias": (7,), "one": (1,)}
    masters, averages, squares = ({name: torch.randn(shape) for name, shape in shapes.items()} for _ in range(3))
    return {"masters": masters, "states": {"exp_avg": averages, "exp_avg_sq": squares}, "frozen": {"still.weight": torch.randn(5, 3).bfloat16(), "still.bias": torch.randn(1).bfloat16()},
            "buffers": {"scale": torch.randn(3).bfloat16(), "calls": torch.tensor(5)}, "shared": {"head": "embed"}, "groups": GROUPS}


def wanted_of(made: dict, step: int) -> dict:
    out = {f"param/{name}": value for name, value in (made["masters"] | made["frozen"]).items()}
    out |= {f"optim/{kind}/{name}": value for kind, tensors in made["states"].items() for name, value in tensors.items()}
    return out | {f"buffer/{name}": value for name, value in made["buffers"].items()} | {"counter/step": torch.tensor(float(step - 1))}


@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize(("stage", "gap"), [(1, 0), (2, 0), (2, 3), (3, 0)], ids=["stage_1", "stage_2", "stage_2_with_gaps", "stage_3"])
def test_partitions_are_put_together(imports, tmp_path, stage, world, gap):
    made = made_up()
    deepspeed_layout.write(tmp_path / "ds", stage=stage, world=world, gap=gap, **made)
    said, found = imports(tmp_path / "ds")
    expect(found, wanted_of(made, 12))
    assert said["from"] == f"DeepSpeed 0.19.8, ZeRO stage {stage}, {world} rank{'s' * (world > 1)}" and said["step"] == 12
    assert said["left_out"] == ["'head', which is 'embed' under another name"]


def test_tags_and_numbers_and_what_the_program_saved(weft, imports, tmp_path):
    made = made_up()
    more = {"epoch": 3, "best": 0.25, "name": "x", "done": True, "history": [1, 2], "bad\nname": 1, "lr_scheduler": {"last_batch_iteration": 4}}
    deepspeed_layout.write(tmp_path / "ds", stage=2, world=2, tag="early", step=5, **made)
    deepspeed_layout.write(tmp_path / "ds", stage=3, world=2, tag="late", step=9, more=more, **made)
    assert imports(tmp_path / "ds", "--tag", "early")[0]["step"] == 5
    assert imports(tmp_path / "ds" / "early")[0]["step"] == 5
    said, _ = imports(tmp_path / "ds")
    assert said["step"] == 9 and "the program's 'history', a list of 2" in said["left_out"]
    assert "a value of the program's whose name is not plain text" in said["left_out"]
    done = weft("ckpt", "show", str(tmp_path / "store2"), "--json")
    sections = json.loads(done.out)["sections"]
    assert sections["weft.numbers"] == "global_steps 9\nmicro_steps 36\nskipped_steps 1\n" and sections["weft.tag"] == "late"
    assert {key: sections[f"client.{key}"] for key in ("epoch", "best", "name", "done")} == {"epoch": "3", "best": "0.25", "name": "x", "done": "true"}
    for tag in ("../ds", "..", "nothing"):
        assert weft("ckpt", "import", str(tmp_path / "ds"), str(tmp_path / "s"), "--tag", tag).code == 2


@pytest.mark.parametrize("stage", [2, 3])
def test_folders_that_are_not_whole_are_refused(weft, tmp_path, stage):
    made = made_up()
    deepspeed_layout.write(tmp_path / "good", stage=stage, world=3, **made)

    def why(change) -> str:
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        change(tmp_path / "bad" / "global_step12")
        done = weft("ckpt", "import", str(tmp_path / "bad"), str(tmp_path / "store"))
        assert done.code == 2, done.err
        return done.err

    def other(folder: pathlib.Path, rank: int, change) -> None:
        path = folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        state = torch.load(path)
        change(state["optimizer_state_dict"])
        torch.save(state, path)

    weights = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
    first = "zero_pp_rank_0_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_00_model_states.pt"
    assert "rank 1 is missing" in why(lambda f: (f / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink())
    assert "of 3 ranks, files of 2" in why(lambda f: (f / "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink())
    assert "parallelism" in why(lambda f: shutil.copy(f / first, f / "mp_rank_01_model_states.pt"))
    assert "parallelism" in why(lambda f: shutil.copy(f / first, f / "layer_03-model_states.pt"))
    assert "groups" in why(lambda f: other(f, 1, lambda state: state[weights].pop()))
    assert "elements" in why(lambda f: other(f, 1, lambda state: state[weights].__setitem__(0, state[weights][0][:40].clone())))
    assert "no *_optim_states.pt" in why(lambda f: [path.unlink() for path in f.glob("*optim_states.pt")])
    assert "zero_stage" in why(lambda f: other(f, 0, lambda state: state.update(zero_stage=4)))
    assert not (tmp_path / "store").exists()


def test_a_model_s_own_file_is_weights_like_any_other(imports, tmp_path):
    made = made_up()
    deepspeed_layout.write(tmp_path / "ds", stage=2, world=2, **made)
    said, found = imports(tmp_path / "ds" / "global_step12" / "mp_rank_00_model_states.pt")
    wanted = {name: value.bfloat16() for name, value in made["masters"].items()} | made["frozen"] | made["buffers"]
    expect(found, {f"param/{name}": value for name, value in wanted.items()})
    assert said["from"] == "weights of torch.save" and "'head', which is 'embed' under another name" in said["left_out"]


def test_state_that_does_not_fit_is_left_out_and_said(imports, tmp_path):
    made = made_up()
    made["states"]["max_exp_avg_sq"] = made["states"]["exp_avg"]
    deepspeed_layout.write(tmp_path / "ds", stage=3, world=2, **made)
    said, found = imports(tmp_path / "ds")
    assert "the optimizer's 'max_exp_avg_sq'" in said["left_out"] and "optim/exp_avg/one" in found and "optim/max_exp_avg_sq/one" not in found


# --- A run goes on from it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [1, 3])
def test_a_run_goes_on_from_an_imported_step_as_from_its_own(weft, tiny, tmp_path, stage):
    """weft's own step, laid out as DeepSpeed would and imported, gives the losses that the own step gives."""
    config = tmp_path / "ds.json"
    config.write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 2}}))
    flags = [*tiny, "--data", "random", "--config", str(config)]
    first = weft("train", *flags, "--steps", "3", "--save", "own")
    assert first.code == 0, first.err
    saved = tensors_of(tmp_path / "own")
    names = [name.removeprefix("param/") for name in saved if name.startswith("param/")]
    kinds = {kind: {name: saved[f"optim/{kind}/{name}"] for name in names} for kind in ("exp_avg", "exp_avg_sq")}
    deepspeed_layout.write(tmp_path / "ds", stage=stage, world=3, groups=[names[::2], names[1::2]], masters={name: saved[f"param/{name}"] for name in names},
                           states=kinds, step=3)
    for rank in range(3):
        path = next((tmp_path / "ds").glob(f"*/*rank_{rank}_*optim_states.pt"))
        state = torch.load(path)
        inner = state["optimizer_state_dict"]["optimizer_state_dict" if stage == 3 else "base_optimizer_state"]
        for one in inner["state"].values():
            one["step"] = torch.tensor(3.0)
        torch.save(state, path)
    assert weft("ckpt", "import", "ds", "imported").code == 0
    runs = []
    for store in ("own", "imported"):
        done = weft("train", *flags, "--steps", "6", "--save", store, "--resume", "--json", "-")
        assert done.code == 0, done.err
        runs.append(json.loads(done.out)["loss_bits"])
    assert runs[0] == runs[1] and len(runs[0]) == 3


def test_weights_alone_start_a_new_optimizer(weft, tiny, tmp_path):
    flags = [*tiny, "--data", "random", "--steps", "2"]
    assert weft("train", *flags, "--export", "w.safetensors").code == 0
    assert weft("ckpt", "import", "w.safetensors", "imported").code == 0
    runs = []
    for start in (["--init", "w.safetensors"], ["--save", "imported", "--resume"]):
        done = weft("train", *flags, "--seed", "3", *start, "--json", "-")
        assert done.code == 0, done.err
        runs.append(json.loads(done.out)["loss_bits"])
    assert runs[0] == runs[1]


# --- DeepSpeed's own --------------------------------------------------------------------------------------------------


def make(weft, folder: pathlib.Path, job: dict) -> None:
    words = json.dumps({"steps": 4, "out": str(folder), **job})
    done = weft("run", "-n", "2", "--", deepspeed_python(), str(HERE / "deepspeed_maker.py"), words, deadline_s=300)
    assert done.code == 0, done.err


@functools.cache
def python_state(path: pathlib.Path) -> dict:
    """Read by DeepSpeed's interpreter, whose classes are in there, and left as plain tensors."""
    plain = path.with_suffix(".plain")
    program = ("import sys, torch\n"
               "def plain(v):\n"
               "    if isinstance(v, torch.Tensor): return v.detach().clone()\n"
               "    if isinstance(v, dict): return {k: plain(w) for k, w in v.items()}\n"
               "    if isinstance(v, (list, tuple)): return [plain(w) for w in v]\n"
               "    return v if type(v) in (int, float, str, bool) else plain(vars(v)) if hasattr(v, 'cur_scale') else None\n"
               "torch.save(plain(torch.load(sys.argv[1], weights_only=False)), sys.argv[2])\n")
    subprocess.run([deepspeed_python(), "-c", program, str(path), str(plain)], check=True, timeout=120, capture_output=True)
    return torch.load(plain, weights_only=False)


@needs_deepspeed
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_weights_are_those_that_deepspeed_puts_together(weft, imports, tmp_path, stage, precision):
    make(weft, tmp_path / "ds", {"stage": stage, "precision": precision})
    said, found = imports(tmp_path / "ds")
    assert said["step"] == 4 and "ZeRO stage" in said["from"]
    theirs = torch.load(tmp_path / "ds" / "expected.pt")
    for name, value in theirs.items():
        if name == "head.weight":  # under its other name
            assert "param/head.weight" not in found and same_bits(found["param/embed.weight"], value)
        elif f"buffer/{name}" in found:
            assert same_bits(found[f"buffer/{name}"].to(value.dtype), value)
        else:
            assert same_bits(found[f"param/{name}"], value), name
    assert {"param/frozen.weight", "param/frozen.bias", "buffer/calls", "optim/exp_avg/embed.weight"} <= found.keys()
    assert found["counter/step"].item() == 4
    check_state(tmp_path / "ds", stage, found)
    assert ("counter/loss_scale" in found) == (precision == "fp16")
    if precision == "fp16":
        scaler = python_state(next((tmp_path / "ds").glob("*/*rank_0_*optim_states.pt")))["optimizer_state_dict"]["loss_scaler"]
        assert found["counter/loss_scale"].tolist() == [scaler[key] for key in ("cur_scale", "cur_iter", "last_overflow_iter", "cur_hysteresis")]


def check_state(folder: pathlib.Path, stage: int, found: dict) -> None:
    """What of the optimizer's state can be said without knowing the layout: the same numbers are there, in whatever order."""
    for kind in ("exp_avg", "exp_avg_sq"):
        theirs = []
        for path in sorted(folder.glob("*/*optim_states.pt")):
            outer = python_state(path)["optimizer_state_dict"]
            states = outer["optimizer_state_dict" if stage == 3 else "base_optimizer_state"]["state"]
            theirs += [states[i][kind] for i in states]
        theirs = torch.cat(theirs)
        ours = torch.cat([value.flatten() for name, value in found.items() if name.startswith(f"optim/{kind}/")])
        assert torch.equal(ours[ours != 0].sort().values, theirs[theirs != 0].sort().values)


@needs_deepspeed
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_stage_0_is_taken_where_it_says_whose_state_is_whose(weft, imports, tmp_path, precision, groups):
    make(weft, tmp_path / "ds", {"stage": 0, "precision": precision, "groups": groups})
    said, found = imports(tmp_path / "ds")
    saved = python_state(tmp_path / "ds" / "global_step4" / "mp_rank_00_model_states.pt")
    named = {name: value for name, value in saved["module"].items() if name not in saved["buffer_names"] and name != "head.weight"}
    assert {name.removeprefix("param/") for name in found if name.startswith("param/")} == named.keys()
    if groups == 2:
        assert any("does not say whose" in line for line in said["left_out"])
        assert all(same_bits(found[f"param/{name}"], value) for name, value in named.items())
        return
    masters = [value for group in saved["optimizer"]["fp32_groups"] for value in group]
    states = saved["optimizer"]["optimizer_state_dict"]["state"]
    assert len(masters) == len(named)
    for i, (name, value) in enumerate(named.items()):
        assert same_bits(found[f"param/{name}"], masters[i])
        assert same_bits(masters[i].to(value.dtype), value), "DeepSpeed's order is not the model's"
        if i in states:
            assert same_bits(found[f"optim/exp_avg/{name}"], states[i]["exp_avg"])
