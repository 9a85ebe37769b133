"""`weft train` as a user runs it: what it prints, what it leaves behind, and what it says to bad input."""

from __future__ import annotations

import html.parser
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import time
import fcntl
import termios

import pytest

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def result_of(tmp_path: pathlib.Path, name: str) -> dict:
    return json.loads((tmp_path / "runs" / name / "result.json").read_text())


def test_json_has_every_field(weft, tiny, tmp_path):
    done = weft("train", *tiny, "--data", "random", "--steps", "12", "--json", "out.json", "--name", "r")
    assert done.code == 0, done.err
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["schema"] == 1
    assert out["status"] == "finished"
    assert (out["world"], out["stage"], out["steps"]) == (1, 0, 12)
    assert (out["exposed_comm_ms"], out["bytes_sent"]) == (0.0, 0)
    # 12 d^2 + 13 d for the block, tables of 2 * 256 + 16 rows, one norm.
    assert out["params"] == 12 * 16 * 16 + 13 * 16 + (2 * 256 + 16) * 16 + 2 * 16
    assert out["state_bytes"] == {"params": 4 * out["params"], "grads": 4 * out["params"], "optimizer": 8 * out["params"]}
    assert len(out["loss"]) == len(out["loss_bits"]) == 12
    for loss, bits in zip(out["loss"], out["loss_bits"]):
        assert struct.unpack(">f", bytes.fromhex(bits))[0] == pytest.approx(loss, abs=0)
    step_ms = out["step_ms"]
    assert 0 < step_ms["min"] <= step_ms["median"] <= step_ms["p90"]
    assert out["tokens_per_s"] > 0 and out["peak_rss_bytes"] > 1 << 20
    assert out["unigram_entropy"] is None and "peak_device_bytes" not in out
    assert out == result_of(tmp_path, "r")


def test_json_to_standard_output_is_only_json(weft, tiny):
    done = weft("train", *tiny, "--data", "random", "--steps", "2", "--json", "-")
    assert json.loads(done.out)["steps"] == 2


def test_same_seed_same_bits_and_another_seed_others(weft, tiny):
    def bits(seed: str) -> list[str]:
        return json.loads(weft("train", *tiny, "--data", "random", "--steps", "5", "--seed", seed, "--json", "-").out)["loss_bits"]

    assert bits("1") == bits("1")
    assert bits("1") != bits("2")


def test_learns_the_corpus_below_its_unigram_entropy(weft, tmp_path):
    """The demo in small: Python's own library, a tenth of the minute."""
    done = weft("train", "--dim", "64", "--layers", "2", "--seq", "64", "--micro-batch", "8", "--lr", "3e-3", "--threads", "1", "--steps", "300",
                "--name", "c")
    assert done.code == 0, done.err
    out = result_of(tmp_path, "c")
    assert 2.5 < out["unigram_entropy"] < 4.0
    assert out["final_loss"] < out["unigram_entropy"]
    assert out["held_out_loss"] < out["unigram_entropy"]
    assert "below the unigram entropy" in done.err
    assert "unigram entropy" in done.err and f"{out['final_loss']:.4f}" in done.err


def test_trains_on_a_file_and_on_a_folder(weft, tiny, tmp_path):
    text = "the quick brown fox jumps over the lazy dog\n" * 50
    (tmp_path / "one.txt").write_text(text)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text(text)
    by_file = json.loads(weft("train", *tiny, "--data", "one.txt", "--steps", "5", "--json", "-").out)
    by_folder = json.loads(weft("train", *tiny, "--data", "texts", "--steps", "5", "--json", "-").out)
    assert by_file["loss_bits"] == by_folder["loss_bits"]
    assert by_file["unigram_entropy"] == pytest.approx(_entropy(text), rel=1e-12)


def _entropy(text: str) -> float:
    counts = [text.count(c) / len(text) for c in set(text)]
    return -sum(p * math.log(p) for p in counts)


class _Page(html.parser.HTMLParser):
    """Collects what a browser would fetch, and the tags that are left open."""

    VOID = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for key, value in attrs if key in ("src", "href") and not (value or "").startswith(("#", "data:"))]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_report_is_one_file_with_the_curve(weft, tiny, tmp_path):
    weft("train", *tiny, "--steps", "30", "--name", "r")
    text = (tmp_path / "runs" / "r" / "report.html").read_text()
    page = _Page()
    page.feed(text)
    assert page.open == [] and page.fetched == []
    assert "<svg" in text and "unigram entropy" in text


def test_resume_gives_the_bits_of_no_interruption(weft, tiny):
    def losses(*arguments: str) -> list[str]:
        done = weft("train", *tiny, "--data", "random", "--json", "-", *arguments)
        assert done.code == 0, done.err
        return json.loads(done.out)["loss_bits"]

    whole = losses("--steps", "20")
    first = losses("--steps", "8", "--save", "state")
    rest = losses("--steps", "20", "--save", "state", "--resume")
    assert first + rest == whole


def test_resume_passes_over_a_damaged_save(weft, tiny, tmp_path):
    common = ["train", *tiny, "--data", "random", "--json", "-", "--save", "state"]
    whole = json.loads(weft(*common, "--steps", "12", "--save-every", "4").out)["loss_bits"]
    assert sorted(p.name for p in (tmp_path / "state").glob("step_*")) == [f"step_{s:08d}" for s in (4, 8, 12)]
    shutil.rmtree(tmp_path / "state" / "step_00000012")
    newest = tmp_path / "state" / "step_00000008" / "rank_00000.safetensors"
    bad = bytearray(newest.read_bytes())
    bad[-1] ^= 1
    newest.write_bytes(bad)
    done = weft(*common, "--steps", "12", "--resume")
    assert "passing over a damaged checkpoint" in done.err and str(newest.relative_to(tmp_path)) in done.err
    out = json.loads(done.out)
    assert out["first_step"] == 4
    assert out["loss_bits"] == whole[4:]


def test_resume_with_other_threads_goes_on_with_a_warning(weft, tiny):
    common = ["train", *tiny, "--data", "random", "--save", "state"]
    weft(*common, "--steps", "2")
    done = weft(*common, "--steps", "4", "--resume", "--threads", "2")
    assert done.code == 0
    assert "[WARN] the losses may differ in their last bits" in done.err and "--threads is 2 now, the saved run had 1" in done.err


def test_a_folder_that_cannot_be_saved_to_is_known_before_training(weft, tiny, tmp_path):
    """Its place is taken by a file."""
    (tmp_path / "taken").write_text("")
    done = weft("train", *tiny, "--data", "random", "--steps", "3", "--save", "taken/state", "--name", "r")
    assert done.code != 0 and "taken" in done.err
    assert not (tmp_path / "runs").exists()


def test_resume_refuses_another_run(weft, tiny):
    weft("train", *tiny, "--data", "random", "--steps", "2", "--save", "state", "--seed", "1")
    done = weft("train", *tiny, "--data", "random", "--steps", "4", "--save", "state", "--seed", "2", "--resume")
    assert done.code == 2
    assert "--seed is 2 now, the saved run had 1" in done.err


def test_a_run_name_that_is_taken_gets_a_number(weft, tiny, tmp_path):
    for _ in range(2):
        weft("train", *tiny, "--data", "random", "--steps", "1", "--name", "same")
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["same", "same-2"]


BAD_INPUT = [
    (["--data", "missing.txt"], "the data to train on does not exist", "missing.txt"),
    (["--data", "empty.txt"], "the data to train on is empty", "empty.txt"),
    (["--data", "short.txt"], "the corpus is shorter than one sequence", "smaller --seq"),
    (["--data", "folder"], "the data to train on is empty", "folder"),
    (["--setps", "3"], "has no flag --setps", "did you mean --steps?"),
    (["--seq", "0"], "0 is outside", "--help"),
    (["--init", "missing.safetensors"], "cannot open", "missing.safetensors"),
    (["--init", "short.txt"], "not a valid safetensors file", "short.txt"),
    (["--json", "no/such/folder/out.json", "--steps", "1"], "the folder for --json does not exist", "mkdir -p no/such/folder"),
    (["--export", "out", "--export-max-file", "much", "--steps", "1"], "much", "1.5GiB"),
    (["--export", "no/such/folder/w.safetensors", "--steps", "1"], "the folder for --export does not exist", "no/such/folder"),
]


@pytest.mark.parametrize("arguments, title, words", BAD_INPUT, ids=[" ".join(c[0]) for c in BAD_INPUT])
def test_bad_input_says_what_where_and_what_to_do(weft, tiny, tmp_path, arguments, title, words):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("abc")
    (tmp_path / "folder").mkdir()
    done = weft("train", *tiny, *arguments)
    assert done.code in (1, 2)
    assert done.err.lstrip().startswith("error: ") or "\nerror: " in done.err
    assert title in done.err and words in done.err
    assert done.out == ""
    assert not (tmp_path / "runs").exists()  # what is refused leaves nothing behind


def test_cuda_is_refused_where_there_is_none(weft, tiny):
    done = weft("train", *tiny, "--data", "random", "--steps", "1", "--device", "cuda")
    if done.code == 0:
        pytest.skip("this machine has a GPU")
    if json.loads(weft("version", "--json").out)["cuda"]:
        assert done.code == 1
        assert "no CUDA device was found" in done.err and "nvidia-smi" in done.err
    else:
        assert done.code == 2
        assert "this build has no CUDA" in done.err and "WEFT_PYTHON=" in done.err


def test_unreadable_data_is_named(weft, tiny, tmp_path):
    """Root may read everything, so the file is one that even root cannot: a loop of links."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    done = weft("train", *tiny, "--data", "loop")
    assert done.code != 0 and "loop" in done.err


def test_no_space_for_the_run_folder_is_known_before_training(build_dir, tiny, tmp_path):
    """A file system of 64 KiB, in a mount namespace of its own."""
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o size=64k none {tmp_path}/disk && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(build_dir / "bin" / "weft"), "train", *tiny, "--steps", "3", "--runs", f"{tmp_path}/disk"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"mount namespaces are not allowed here: {done.stderr.strip()}")
    assert done.returncode == 1
    assert "no disk space for the run folder" in done.stderr and f"{tmp_path}/disk" in done.stderr
    assert "step 1" not in done.stderr


def test_divergence_ends_with_a_reason_and_a_report(weft, tiny, tmp_path):
    done = weft("train", *tiny, "--data", "random", "--steps", "200", "--lr", "1000", "--warmup", "0", "--name", "d")
    assert done.code == 1
    assert "the loss is no longer a number" in done.err and "a smaller --lr" in done.err
    assert result_of(tmp_path, "d")["status"] == "failed"
    assert "<svg" in (tmp_path / "runs" / "d" / "report.html").read_text()


def test_piped_output_has_no_control_characters(weft, tiny):
    done = weft("train", *tiny, "--steps", "50")
    assert done.code == 0
    assert not CONTROL.search(done.err) and not CONTROL.search(done.out)


def _on_terminal(command: list[str], columns: int, cwd: pathlib.Path) -> str:
    """Everything a program prints to a terminal of that width."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, cwd=cwd, env=env, start_new_session=True)
    os.close(child)
    text, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([parent], [], [], 0.2)
        if ready:
            try:
                piece = os.read(parent, 65536)
            except OSError:  # the other side closed
                break
            if not piece:
                break
            text += piece
    process.wait(timeout=10)
    os.close(parent)
    return text.decode()


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_wraps_on_a_narrow_terminal(build_dir, tiny, tmp_path, columns):
    text = _on_terminal([str(build_dir / "bin" / "weft"), "train", *tiny, "--steps", "400"], columns, tmp_path)
    assert "\r" in text and "final loss" in text
    shown = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    lines = [line for line in re.split(r"[\r\n]+", shown) if line and not line.startswith("report: ")]
    assert lines and max(map(len, lines)) <= columns


def test_ctrl_c_ends_after_the_step_with_a_report(build_dir, tiny, tmp_path):
    command = [str(build_dir / "bin" / "weft"), "train", *tiny, "--data", "random", "--for", "10m", "--name", "i", "--save", "state"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert "step 1" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT
    assert "stopped" in err
    out = result_of(tmp_path, "i")
    assert out["status"] == "stopped" and out["steps"] >= 1
    assert (tmp_path / "state" / f"step_{out['steps']:08d}" / "manifest.json").exists()
