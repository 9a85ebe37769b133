"""`weft ckpt` as a user runs it, on stores that `weft train` left."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def store(weft, tiny, tmp_path):
    """Steps 1 to 4 of two ranks in s."""
    done = weft("train", "-n", "2", *tiny, "--data", "random", "--steps", "4", "--save", "s", "--save-every", "1", "--export", "out.safetensors")
    assert done.code == 0, done.err
    return tmp_path / "s"


def said(weft, *words: str) -> dict:
    done = weft("ckpt", *words, "--json")
    assert done.code == 0, done.err
    out = json.loads(done.out)
    assert out["schema"] == 1
    return out


def flip(path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_ls_has_every_step_the_newest_first(weft, store):
    steps = said(weft, "ls", "s")["steps"]
    assert [one["step"] for one in steps] == [4, 3, 2, 1]
    assert all(one["world"] == 2 and one["params"] == 11760 and one["metrics"]["loss"] > 0 for one in steps)
    text = weft("ckpt", "ls", "s").out
    assert "step 4" in text and "2 ranks" in text
    (store / "step_00000003" / "manifest.json").write_text("{}")
    done = weft("ckpt", "ls", "s")
    assert done.code == 1 and "damaged" in done.out


def test_show_has_tensors_and_sections(weft, store):
    out = said(weft, "show", "s", "--step", "2")
    assert out["step"] == 2 and out["tensors"]["param/token.weight"] == {"dtype": "F32", "shape": [256, 16]}
    assert "optim/exp_avg/token.weight" in out["tensors"] and out["sections"]["client.seed"] == "0"
    assert "global_steps 2\n" in out["sections"]["weft.numbers"]
    text = weft("ckpt", "show", "s/step_00000003/", "--tensors").out
    assert "step_00000003" in text and "param/token.weight" in text


def test_verify_names_file_and_tensor(weft, store):
    assert [one["intact"] for one in said(weft, "verify", "s", "--all")["steps"]] == [True] * 4
    flip(store / "step_00000004" / "rank_00001.safetensors")
    done = weft("ckpt", "verify", "s")
    assert done.code == 1 and "rank_00001.safetensors" in done.out and "it holds '" in done.out
    assert weft("ckpt", "verify", "s", "--step", "3").code == 0
    assert weft("ckpt", "verify", "s", "--all").code == 1


def test_diff_counts_elements(weft, store):
    assert weft("ckpt", "diff", "s/step_00000004", "s").code == 0
    out = json.loads(weft("ckpt", "diff", "s/step_00000004", "s/step_00000004", "--json").out)
    assert out["same"] and out["compared"] > 50 and out["differ"] == []
    done = weft("ckpt", "diff", "s/step_00000003", "s/step_00000004")
    assert done.code == 1 and "param/token.weight: " in done.out and "elements differ" in done.out


def test_prune_keeps_what_it_is_told(weft, store):
    words = ["s", "--keep-last", "1", "--keep-every", "2"]
    assert said(weft, "prune", *words, "--dry-run")["removed"] == [3, 1]
    assert sorted(path.name for path in store.glob("step_*"))[0] == "step_00000001"
    assert said(weft, "prune", *words)["removed"] == [3, 1]
    assert sorted(path.name for path in store.glob("step_*")) == ["step_00000002", "step_00000004"]


@pytest.mark.parametrize("dtype", ["saved", "fp32", "bf16", "fp16"])
def test_export_is_what_others_read(weft, store, tmp_path, dtype):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    out = said(weft, "export", "s", "model", "--dtype", dtype)
    assert out["tensors"] == 17
    found, expected = safetensors.load_file(tmp_path / "model" / "model.safetensors"), safetensors.load_file(tmp_path / "out.safetensors")
    type_ = {"saved": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name].to(type_)) for name in found)


def test_export_in_several_files_has_an_index(weft, store, tmp_path):
    out = said(weft, "export", "s", "model", "--max-file", "20KB")
    index = json.loads((tmp_path / "model" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == out["bytes"] == 4 * 11760
    assert set(index["weight_map"].values()) == {name.rsplit("/", 1)[1] for name in out["files"] if name.endswith(".safetensors")}


BAD = [
    (["ls", "nothing"], "there is no such checkpoint"),
    (["show", "."], "no step was saved there"),
    (["show", "s", "--step", "9"], "no step 9"),
    (["verfy", "s"], "did you mean: weft ckpt verify"),
    (["prune", "s"], "--keep-last"),
    (["export", "s", "."], "there is an exported model already"),
    ([], "nothing to do"),
]


@pytest.mark.parametrize("words, text", BAD, ids=[" ".join(words) or "nothing" for words, _ in BAD])
def test_bad_input_is_told(weft, store, tmp_path, words, text):
    (tmp_path / "model.safetensors").write_text("")
    done = weft("ckpt", *words)
    assert done.code == 2 and text in done.err


@pytest.mark.parametrize("command", ["ls", "show", "verify", "diff", "prune", "export"])
def test_help_has_an_example(weft, command):
    done = weft("ckpt", command, "--help")
    assert done.code == 0 and "weft ckpt " + command in done.out and "--json" in done.out
