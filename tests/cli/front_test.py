"""The front binary: torch-free, quick, and polite to typing mistakes."""

from __future__ import annotations

import json
import re
import subprocess


def test_version_says_what_was_built_in(weft):
    text = weft("--version").out
    assert re.match(r"weft \d+\.\d+\.\d+\n", text)
    for word in ("commit", "torch", "gloo", "nccl", "cuda", "io_uring"):
        assert re.search(rf"^{word} +\S+$", text, re.M), word


def test_version_as_json(weft):
    out = json.loads(weft("--version", "--json").out)
    assert out["schema"] == 1
    assert re.fullmatch(r"\d+\.\d+\.\d+", out["torch"])
    assert all(isinstance(out[key], bool) for key in ("gloo", "nccl", "cuda", "io_uring"))


def test_version_says_why_nccl_was_left_out_of_a_torch_that_has_it(weft):
    """Builds that have it, and builds for CPUs, give no reason; tests/house/cuda_headers_test.py has the reasons."""
    out, text = json.loads(weft("--version", "--json").out), weft("--version").out
    assert not (out["nccl"] and "nccl_why" in out)
    assert ("\nbuilt without nccl: " in text) == ("nccl_why" in out)


def test_help_lists_the_commands_and_an_example(weft):
    done = weft("--help")
    assert done.code == 0
    assert "train" in done.out and "example" in done.out


def test_no_command_is_wrong_usage(weft):
    assert weft().code == 2


def test_a_misspelt_command_gets_a_suggestion(weft):
    done = weft("trian")
    assert done.code == 2
    assert "there is no command 'trian'" in done.err and "did you mean: weft train" in done.err


def test_train_help_has_every_flag_and_an_example(weft):
    text = weft("train", "--help").out
    for flag in ("--dim", "--layers", "--heads", "--vocab", "--seq", "--micro-batch", "--steps", "--seed", "--threads", "--device", "--data",
                 "--save", "--save-every", "--keep-last", "--keep-every", "--keep-best", "--resume", "--restarts", "--json", "--tied", "--for", "--init", "--export",
                 "--export-max-file"):
        assert flag in text, flag
    assert "Example:" in text


def test_the_front_binary_does_not_load_torch(build_dir):
    libraries = subprocess.run(["ldd", str(build_dir / "bin" / "weft")], capture_output=True, text=True, check=True).stdout
    assert "libtorch" not in libraries and "libc10" not in libraries
