"""`weft train -n N` as a user runs it: several ranks through the real launcher, what they leave behind, and how they fail."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import signal
import subprocess

import pytest
from rank_helpers import DEADLINE_S, eventually
from soak import children_of

STEPS = 12


def config(tmp_path: pathlib.Path, **more) -> str:
    text = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 0, "overlap_comm": True, "reduce_bucket_size": 3000}, **more}
    (tmp_path / "ds_config.json").write_text(json.dumps(text))
    return "ds_config.json"


def train(weft, tiny, *words: str, ranks: int = 2):
    return weft("train", "-n", str(ranks), *tiny, "--data", "random", "--steps", str(STEPS), "--name", "r", *words)


def result(tmp_path: pathlib.Path) -> dict:
    return json.loads((tmp_path / "runs" / "r" / "result.json").read_text())


def test_two_ranks_leave_one_record(weft, tiny, tmp_path):
    done = train(weft, tiny, "--config", config(tmp_path))
    assert done.code == 0, done.err
    out = result(tmp_path)
    assert (out["world"], out["status"], out["steps"]) == (2, "finished", STEPS)
    assert out["tokens_per_step"] == 2 * 2 * 2 * 16
    # Every gradient goes once around a ring of two, in fp32, with the padding of its bucket.
    per_step = out["bytes_sent"] / STEPS
    assert 4 * out["params"] <= per_step < 4.5 * out["params"]
    assert [path.name for path in sorted((tmp_path / "runs").iterdir())] == ["r"]
    assert done.err.count("run r: finished") == 1


def test_weights_that_give_no_gradient_end_the_run(weft, tiny, tmp_path):
    hopeless = {"type": "AdamW", "params": {"lr": 1000}}
    done = train(weft, tiny, "--config", config(tmp_path, gradient_clipping=1.0, optimizer=hopeless))
    assert done.code == 1
    assert "the gradient is no longer a number" in done.err and "a smaller learning rate" in done.err
    assert result(tmp_path)["status"] == "failed"


@pytest.mark.parametrize("folder", ["mine", None], ids=["where_it_was_asked_to", "in_the_run_folder"])
@pytest.mark.parametrize("hopeless, helps, done_steps, words", [
    ({"initial_scale_power": 30, "min_loss_scale": 2**30, "hysteresis": 1}, {"initial_scale_power": 30, "hysteresis": 1}, 0, "at the smallest loss scale"),
    ({"loss_scale": 1e30}, {"loss_scale": 128}, 9, "10 steps in a row"),
], ids=["smallest_scale", "ten_in_a_row"])
def test_a_run_whose_gradients_are_lost_saves_its_state_and_can_go_on(weft, tiny, tmp_path, hopeless, helps, done_steps, words, folder):
    where = folder or "runs/r/state"
    done = train(weft, tiny, "--config", config(tmp_path, fp16={"enabled": True, **hopeless}), *(["--save", folder] if folder else []))
    assert done.code == 1
    assert words in done.err and f"the state after step {done_steps} is saved in {where}" in done.err
    assert f"--save {where} --resume" in done.err
    assert (tmp_path / where / f"step_{done_steps:08}" / "manifest.json").exists()
    assert result(tmp_path)["status"] == "failed"
    again = weft("train", "-n", "2", *tiny, "--data", "random", "--steps", "30", "--config", config(tmp_path, fp16={"enabled": True, **helps}),
                 "--save", where, "--resume", "--json", "-")
    assert again.code == 0, again.err
    out = json.loads(again.out)
    assert f"resumed from step {done_steps}" in again.err and out["steps"] == 30 - done_steps
    assert len(out["skipped_steps"]) < out["steps"] - 5, "and it trains"


def test_metrics_have_a_row_for_each_step(weft, tiny, tmp_path):
    done = train(weft, tiny, "--config", config(tmp_path, steps_per_print=5, wall_clock_breakdown=True))
    assert done.code == 0, done.err
    losses = result(tmp_path)["loss"]
    rows = list(csv.DictReader((tmp_path / "runs" / "r" / "metrics.csv").open()))
    lines = [json.loads(line) for line in (tmp_path / "runs" / "r" / "metrics.jsonl").read_text().splitlines()]
    assert [int(row["step"]) for row in rows] == [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert [float(row["loss"]) for row in rows] == losses
    for row in rows:
        parts = sum(float(row[f"{part}_ms"]) for part in ("forward", "backward", "optimizer"))
        assert 0 < parts and float(row["grad_norm"]) > 0 and float(row["exposed_comm_ms"]) >= 0
    said = [line for line in done.err.splitlines() if "] step " in line]
    assert [line.split("step ")[1].split(":")[0] for line in said] == ["5", "5", "10", "10"], "one line with the loss, one with the times"
    assert done.err.count("waiting for communication") == 2


def spans(trace: list[dict], rank: int, category: str) -> list[dict]:
    return [event for event in trace if event["ph"] == "X" and event["pid"] == rank and event["cat"] == category]


def test_the_trace_shows_every_rank_and_adds_up(weft, tiny, tmp_path):
    done = train(weft, tiny, "--config", config(tmp_path, weft={"reduce_each": "step"}), "--trace")
    assert done.code == 0, done.err
    trace = json.loads((tmp_path / "runs" / "r" / "trace.json").read_text())
    for rank in (0, 1):
        steps = spans(trace, rank, "step")
        assert [event["args"]["step"] for event in steps] == list(range(1, STEPS + 1))
        buckets = {event["args"]["bucket"] for event in spans(trace, rank, "reduce")}
        assert len(buckets) > 2 and buckets == set(range(len(buckets)))
        assert len(spans(trace, rank, "reduce")) == STEPS * len(buckets)
        assert len(spans(trace, rank, "exposed_wait")) == 4 * STEPS
        assert len(spans(trace, rank, "forward")) == len(spans(trace, rank, "backward")) == 2 * STEPS
        for step in steps:
            begin, end = step["ts"], step["ts"] + step["dur"]
            inside = [event for category in ("data", "forward", "backward", "exposed_wait", "optimizer") for event in spans(trace, rank, category)
                      if begin <= event["ts"] and event["ts"] + event["dur"] <= end + 0.001]
            before = 0 if step is steps[0] else 1  # the loss of the step before is shared
            assert len(inside) == before + 2 * 3 + 4, "two micro-steps, gradients, one update, and the barriers around it"
            inside.sort(key=lambda event: event["ts"])
            for one, next_one in zip(inside, inside[1:]):
                assert one["ts"] + one["dur"] <= next_one["ts"] + 0.001, "the parts of a step follow each other"
            assert sum(event["dur"] for event in inside) <= step["dur"] + 0.001


def test_tuned_buckets_are_told_and_change_nothing(weft, tiny, tmp_path):
    assert train(weft, tiny, "--config", config(tmp_path)).code == 0
    expected = result(tmp_path)["loss_bits"]
    done = weft("train", "-n", "2", *tiny, "--data", "random", "--steps", str(STEPS), "--name", "auto", "--config", config(tmp_path, weft={"bucket": "auto"}))
    assert done.code == 0, done.err
    out = json.loads((tmp_path / "runs" / "auto" / "result.json").read_text())
    assert out["loss_bits"] == expected
    assert out["buckets"]["num_buckets"] >= 1 and out["buckets"]["bytes_per_s"] > 0
    assert "buckets: " in done.err and "expected to expose" in done.err


def stage(tmp_path: pathlib.Path, number: int) -> str:
    path = tmp_path / f"stage{number}.json"
    path.write_text((tmp_path / config(tmp_path)).read_text().replace('"stage": 0', f'"stage": {number}'))
    return path.name


@pytest.mark.parametrize("more", [{}, {"bf16": {"enabled": True}}], ids=["fp32", "bf16"])
def test_stages_have_the_same_bits_and_less_and_less_state(weft, tiny, tmp_path, more):
    def run(number: int, **ours) -> dict:
        text = json.loads((tmp_path / stage(tmp_path, number)).read_text())
        (tmp_path / "here.json").write_text(json.dumps({**text, **more, "weft": ours}))
        done = weft("train", "-n", "2", *tiny, "--data", "random", "--steps", str(STEPS), "--config", "here.json", "--json", "-")
        assert done.code == 0, done.err
        return json.loads(done.out)

    whole, zero, one, two = run(0, shard_update=False), run(0), run(1), run(2)
    apart = run(2, common_parameters=False)
    assert whole["loss_bits"] == zero["loss_bits"] == one["loss_bits"] == two["loss_bits"] == apart["loss_bits"]
    assert [out["stage"] for out in (zero, one, two)] == [0, 1, 2]
    params, width = whole["params"], 2 if more else 4
    kept = 8 + (4 if more else 0)
    assert whole["state_bytes"]["optimizer"] == kept * params
    for out in (zero, one, two):
        assert out["state_bytes"]["optimizer"] * 2 == kept * params and out["state_bytes"]["params"] == width * params
    assert two["state_bytes"]["grads"] * 2 == width * params < one["state_bytes"]["grads"]
    assert apart["bytes_sent"] > two["bytes_sent"], "parameters that ranks have in common are not gathered"


def test_the_trace_shows_parameters_that_come_behind_forward(weft, tiny, tmp_path):
    done = train(weft, tiny, "--config", config(tmp_path, weft={"common_parameters": False}), "--trace")
    assert done.code == 0, done.err
    trace = json.loads((tmp_path / "runs" / "r" / "trace.json").read_text())
    for rank in (0, 1):
        buckets = {event["args"]["bucket"] for event in spans(trace, rank, "gather")}
        assert buckets == {event["args"]["bucket"] for event in spans(trace, rank, "reduce")}
        assert len(spans(trace, rank, "gather")) == STEPS * len(buckets)
        ends = [event["ts"] + event["dur"] for event in spans(trace, rank, "step")]
        started = [max(event["ts"] for event in spans(trace, rank, "gather") if event["ts"] < end) for end in ends]
        assert len(set(started)) == STEPS, "the gathers of each step start before it ends"


def test_parameters_come_while_the_next_forward_runs(weft, tiny, tmp_path):
    done = train(weft, tiny, "--config", config(tmp_path, weft={"transport": "gloo"}, zero_optimization={"stage": 2, "reduce_bucket_size": 3000}), "--trace")
    assert done.code == 0, done.err
    trace = json.loads((tmp_path / "runs" / "r" / "trace.json").read_text())
    for rank in (0, 1):
        # Of the two micro-steps of a step, the first one's forward is what gathers hide behind.
        forwards = spans(trace, rank, "forward")[::2]
        gathers, waits = spans(trace, rank, "gather"), [event for event in spans(trace, rank, "exposed_wait") if event["name"] == "wait for parameters"]
        assert len(forwards) == STEPS and len(gathers) == len(waits)
        num_hidden = 0
        for step, forward in zip(spans(trace, rank, "step"), forwards[1:]):
            begin, end = forward["ts"], forward["ts"] + forward["dur"]
            inside = [event for event in waits if begin <= event["ts"] < end]
            assert {event["args"]["bucket"] for event in inside} == {event["args"]["bucket"] for event in gathers}, "forward waits for each bucket that it touches"
            asked_for = [event for event in gathers if step["ts"] <= event["ts"] < step["ts"] + step["dur"]]
            assert len(asked_for) == len(inside) > 2, "and all were asked for when the step before had updated them"
            num_hidden += sum(event["ts"] + event["dur"] > begin for event in asked_for)
        assert num_hidden > 0, "on a network some are still on their way when forward begins"


@pytest.mark.parametrize("before, after", [(0, 0), (1, 1), (0, 1), (1, 2), (2, 0)])
def test_a_resumed_run_has_the_bits_of_no_interruption(weft, tiny, tmp_path, before, after):
    def bits(number: int, *words: str) -> list[str]:
        done = weft("train", "-n", "2", *tiny, "--data", "random", "--warmup", "0", "--config", stage(tmp_path, number), *words, "--json", "-")
        assert done.code == 0, done.err
        return json.loads(done.out)["loss_bits"]

    whole = bits(before, "--steps", "8")
    first = bits(before, "--steps", "5", "--save", "state")
    assert first + bits(after, "--steps", "8", "--save", "state", "--resume") == whole


@pytest.mark.parametrize("mode", ["bf16", "fp16"])
def test_a_narrow_run_resumes_to_the_bit_too(weft, tiny, tmp_path, mode):
    settings = {"bf16": {"enabled": True}, "fp16": {"enabled": True, "initial_scale_power": 22, "hysteresis": 1, "loss_scale_window": 3}}
    name = config(tmp_path, **{mode: settings[mode]})

    def run(*words: str) -> dict:
        done = weft("train", "-n", "2", *tiny, "--data", "random", "--warmup", "0", "--config", name, *words, "--json", "-")
        assert done.code == 0, done.err
        return json.loads(done.out)

    whole = run("--steps", "16")
    first = run("--steps", "9", "--save", "state")
    after = run("--steps", "16", "--save", "state", "--resume")
    assert first["loss_bits"] + after["loss_bits"] == whole["loss_bits"]
    if mode == "fp16":
        assert first["loss_scale"] + after["loss_scale"] == whole["loss_scale"]
        assert first["skipped_steps"] + after["skipped_steps"] == whole["skipped_steps"] != []
        assert len(set(whole["loss_scale"])) > 2, "down where it overflows, and up again"


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("mode", ["fp32", "bf16"])
def test_two_ranks_on_one_gpu_have_the_losses_of_one(weft, tiny, tmp_path, mode, stage):
    if not json.loads(weft("version", "--json").out)["cuda"] or not pathlib.Path("/dev/nvidia0").exists():
        pytest.skip("needs a GPU, which the two ranks share; this machine or this build of weft has none")
    common = {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "weft": {"transport": "gloo"},
              "zero_optimization": {"stage": stage, "overlap_comm": True, "reduce_bucket_size": 3000}, "bf16": {"enabled": mode == "bf16"}}

    def losses(ranks: int) -> list[float]:
        (tmp_path / "gpu.json").write_text(json.dumps({**common, "gradient_accumulation_steps": 2 // ranks}))
        done = weft("train", "-n", str(ranks), *tiny, "--data", "random", "--steps", str(STEPS), "--device", "cuda", "--config", "gpu.json", "--json", "-")
        assert done.code == 0, done.err
        return json.loads(done.out)["loss"]

    assert losses(2) == pytest.approx(losses(1), rel=1e-5 if mode == "fp32" else 5e-3)


def test_a_resumed_run_has_the_times_of_its_steps_too(weft, tiny, tmp_path):
    for words in (["--steps", "3", "--name", "a"], ["--steps", "6", "--resume", "--name", "b"]):
        done = weft("train", "-n", "2", *tiny, "--data", "random", "--save", "state", *words)
        assert done.code == 0, done.err
    rows = list(csv.DictReader((tmp_path / "runs" / "b" / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows] == [4, 5, 6]
    assert all(float(row["backward_ms"]) > 0 for row in rows)


def test_the_micro_batch_of_the_config_counts(weft, tiny, tmp_path):
    words = [word for i, word in enumerate(tiny) if word != "--micro-batch" and tiny[i - 1] != "--micro-batch"]
    done = weft("train", "-n", "2", *words, "--micro-batch", "5", "--data", "corpus", "--steps", "3", "--config", config(tmp_path), "--json", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["tokens_per_step"] == 2 * 2 * 2 * 16


def test_ranks_that_mpirun_started_read_the_config_for_their_world(build_dir, tiny, tmp_path):
    text = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
    (tmp_path / "ds_config.json").write_text(json.dumps(text))
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "SLURM_", "RANK", "WORLD_SIZE"))}
    ranks = [subprocess.Popen([str(build_dir / "bin" / "weft"), "train", *tiny, "--data", "random", "--steps", "3", "--config", "ds_config.json", "--name", "r"],
                              cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env={**clean, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                                   "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_MCA_ess_base_jobid": str(os.getpid()), "OMP_NUM_THREADS": "1"})
             for rank in range(2)]
    errors = [rank.communicate(timeout=DEADLINE_S)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    assert result(tmp_path)["world"] == 2


@pytest.mark.parametrize("text, words", [
    ('{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}', "7"),
    ('{"bf16": {"enabled": true}, "fp16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2}', "bf16"),
    ('{"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 2,'
     ' "optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}}', "weights in fp32"),
    ("{not json", "ds_config.json:1"),
])
def test_a_config_that_cannot_be_trained_is_refused(weft, tiny, tmp_path, text, words):
    (tmp_path / "ds_config.json").write_text(text)
    done = train(weft, tiny, "--config", "ds_config.json")
    assert done.code == 2, done.err
    assert words in done.err
    assert not (tmp_path / "runs").exists()


def test_a_killed_rank_is_named_and_the_other_ends(build_dir, tiny, tmp_path):
    env = {**os.environ, "WEFT_DEADLINE_S": "5"}
    run = subprocess.Popen([str(build_dir / "bin" / "weft"), "train", "-n", "2", *tiny, "--data", "random", "--for", "60s", "--name", "r"],
                           cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "runs" / "r" / "metrics.jsonl"
    eventually("some steps", lambda: metrics.exists() and len(metrics.read_text().splitlines()) > 5)
    os.kill(children_of(run.pid)[-1], signal.SIGKILL)
    _, err = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 128 + signal.SIGKILL, err
    assert "killed by SIGKILL" in err and "rank 1" in err
