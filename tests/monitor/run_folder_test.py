"""What a run of several ranks leaves in its folder, for those who look at it."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("run_folder")

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = ROOT / "build/release/bin/weft"
DIM, LAYERS, HEADS, VOCAB, SEQ, BATCH, RANKS, STEPS = 32, 2, 2, 96, 16, 3, 2, 48


def train(folder: pathlib.Path, *more: str, ranks: int = RANKS) -> dict:
    words = [WEFT, "train", "-n", ranks, "--dim", DIM, "--layers", LAYERS, "--heads", HEADS, "--vocab", VOCAB, "--seq", SEQ, "--micro-batch", BATCH,
             "--steps", STEPS, "--data", "random", "--threads", 1, "--runs", folder, "--name", "x", "--json", "-", *more]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, dict]:
    folder = tmp_path_factory.mktemp("runs")
    return folder / "x", train(folder, "--trace-steps", "10-12")


def rows_of(folder: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_flops_are_the_formula_s(run: tuple[pathlib.Path, dict]) -> None:
    tokens = RANKS * BATCH * SEQ
    forward = tokens * (24 * LAYERS * DIM**2 + 4 * LAYERS * SEQ * DIM + 2 * DIM * VOCAB)
    assert run[1]["flops_per_step"] == 3 * forward
    assert run[1]["peak_flops_per_s"] > 0


def test_rows_have_what_is_known_of_a_step(run: tuple[pathlib.Path, dict]) -> None:
    rows = rows_of(run[0])
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    last = rows[-1]
    assert last["flops_per_s"] == pytest.approx(run[1]["flops_per_step"] / (last["step_ms"] * 1e-3))
    assert last["mfu"] == pytest.approx(last["flops_per_s"] / run[1]["peak_flops_per_s"])
    assert last["rss_bytes"] > 1 << 20
    peaks = [row["peak_rss_bytes"] for row in rows]
    assert peaks == sorted(peaks) and 1 << 20 < peaks[-1] <= run[1]["peak_rss_bytes"], "it never falls, and the result has the last of it"
    assert "peak_device_bytes" not in last, "there is no device"
    assert last["cpu_percent"] > 0
    assert last["sent_bytes"] > 0
    for name in ("step_ms", "busy_ms", "waits_ms", "rss_bytes"):
        assert 0 <= last[f"{name}_min"] <= last[f"{name}_mean"] <= last[f"{name}_max"], name
    assert last["step_ms_min"] <= last["step_ms"] <= last["step_ms_max"]
    assert 0 < last["busy_ms_max"] <= last["step_ms_max"] and last["busy_ms_min"] <= last["step_ms_min"]
    assert "device_bytes_max" not in last and "device_fragmentation" not in last, "there is no device"
    parts = sum(last[name] for name in ("data_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms"))
    assert parts == pytest.approx(last["step_ms"], rel=1e-6)
    assert last["unix_s"] > rows[0]["unix_s"] > 1.7e9


def test_the_board_has_all_ranks(run: tuple[pathlib.Path, dict]) -> None:
    board = json.loads((run[0] / "ranks.json").read_text())
    assert board["step"] == STEPS and board["world"] == RANKS
    assert [one["rank"] for one in board["ranks"]] == list(range(RANKS))
    for one in board["ranks"]:
        assert 0 < one["busy_ms"] <= one["step_ms"]
        assert one["host"] and one["rss_bytes"] > 1 << 20 and one["peak_rss_bytes"] > 1 << 20
        assert 1 << 20 < one["host_bytes"]
    together = [sum(one[name] for one in board["ranks"]) for name in ("host_bytes", "peak_rss_bytes")]
    assert together[0] < together[1], "shared memory and libraries stand in the host once"


def test_the_timeline_has_all_ranks_on_one_clock(run: tuple[pathlib.Path, dict]) -> None:
    timeline = json.loads((run[0] / "timeline.json").read_text())
    assert [step["step"] for step in timeline["steps"]] == [STEPS - 1, STEPS]
    assert {row["rank"] for row in timeline["rows"]} == set(range(RANKS))
    assert {"forward", "backward", "optimizer", "reduce"} <= {span[4] for span in timeline["spans"]}
    end_ns = timeline["steps"][-1]["end_ns"]
    for span in timeline["spans"]:
        assert -end_ns < span[1] <= span[2] < 2 * end_ns


def test_the_trace_has_the_steps_asked_for_and_its_arrows_follow_each_bucket(run: tuple[pathlib.Path, dict]) -> None:
    events = json.loads((run[0] / "trace.json").read_text())
    steps = [event for event in events if event["ph"] == "X" and event["name"] == "step"]
    assert sorted(event["args"]["step"] for event in steps) == sorted([10, 11, 12] * RANKS)
    check_arrows(events)


def around(event: dict, spans: list[dict]) -> list[dict]:
    """The spans that a viewer may bind this end of an arrow to."""
    return [one for one in spans if (one["pid"], one["tid"]) == (event["pid"], event["tid"]) and one["ts"] - 1e-3 <= event["ts"] <= one["ts"] + one["dur"] + 1e-3]


def check_arrows(events: list[dict]) -> None:
    """Of each reduction: an arrow from backward to its bucket, one from there to it, and one on to an update."""
    spans = [event for event in events if event["ph"] == "X"]
    ends: dict[int, dict[str, dict]] = {}
    for event in events:
        if event["ph"] in "sf":
            assert ends.setdefault(event["id"], {}).setdefault(event["ph"], event) is event, "an arrow with two starts"
    ways = collections.Counter()
    for id_, both in ends.items():
        assert set(both) == {"s", "f"}, id_
        assert both["s"]["pid"] == both["f"]["pid"] and both["s"]["ts"] <= both["f"]["ts"]
        names = [{one["cat"] for one in around(both[end], spans) if one.get("args", {}).get("bucket", both[end]["args"]["bucket"]) == both[end]["args"]["bucket"]}
                 - {"step"} for end in "sf"]
        assert all(len(name) == 1 for name in names), (both, names)
        ways[tuple(name.pop() for name in names)] += 1
    num_reduces = sum(one["cat"] == "reduce" for one in spans)
    assert num_reduces > 0
    assert ways == {("backward", "bucket"): num_reduces, ("bucket", "reduce"): num_reduces, ("reduce", "optimizer"): num_reduces}


@pytest.mark.parametrize("more", [{"gradient_clipping": 1.0}, {"fp16": {"enabled": True, "initial_scale_power": 4}}], ids=["clipping", "fp16"])
def test_arrows_lead_to_the_update_also_where_that_is_one_for_all(tmp_path: pathlib.Path, more: dict) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": 1, "reduce_bucket_size": 9000},
                                                  "optimizer": {"type": "Adam", "params": {"lr": 1e-3}}} | more))
    train(tmp_path, "--config", str(tmp_path / "ds.json"), "--trace-steps", "10-12")
    events = json.loads((tmp_path / "x/trace.json").read_text())
    assert len({event["args"]["bucket"] for event in events if event["ph"] == "s"}) > 1
    check_arrows(events)


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_what_was_sent_is_told_by_what_for(tmp_path: pathlib.Path, stage: int) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": BATCH, "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
                                                  "zero_optimization": {"stage": stage}, "weft": {"transport": "gloo"}}))
    result = train(tmp_path, "--config", str(tmp_path / "ds.json"))
    for row in rows_of(tmp_path / "x")[1:]:
        assert row["sent_reduce_bytes"] + row["sent_gather_bytes"] == row["sent_bytes"]
        assert row["sent_reduce_bytes"] > 0 and (row["sent_gather_bytes"] > 0 or stage == 0)
        assert 8 * 20 < row["sent_loss_bytes"] < 1000
    assert sum(row["sent_bytes"] for row in rows_of(tmp_path / "x")) == pytest.approx(result["bytes_sent"], rel=0.1)
    page = (tmp_path / "x/report.html").read_text()
    assert "of gradients, a step" in page and "of losses and times, a step" in page


def test_a_run_without_metrics_leaves_none(tmp_path: pathlib.Path) -> None:
    result = train(tmp_path, "--no-metrics")
    assert result["status"] == "finished"
    assert not (tmp_path / "x/metrics.csv").exists() and (tmp_path / "x/report.html").exists()


def test_settings_say_where_they_come_from(run: tuple[pathlib.Path, dict]) -> None:
    settings = json.loads((run[0] / "settings.json").read_text())
    by_path = {one["path"]: one for one in settings["settings"]}
    assert by_path["train_micro_batch_size_per_gpu"]["value"] == str(BATCH)
    assert by_path["zero_optimization.reduce_bucket_size"]["from"] == "default"
    assert all({"severity", "en", "zh"} <= set(one) for one in settings["advice"])


def test_the_log_is_kept(run: tuple[pathlib.Path, dict]) -> None:
    lines = (run[0] / "log.txt").read_text().splitlines()
    assert any(line[:2] == "20" and line[19:21] == "Z " and "[weft rank 0]" in line for line in lines), lines


def test_one_rank_needs_no_others(tmp_path: pathlib.Path) -> None:
    result = train(tmp_path, ranks=1)
    assert result["flops_per_step"] > 0
    assert json.loads((tmp_path / "x/ranks.json").read_text())["world"] == 1


@pytest.mark.serial
def test_slow_ranks_are_named() -> None:
    """A few of slow_trials.py; the whole is its own script."""
    words = [sys.executable, ROOT / "tests/monitor/slow_trials.py", "--slowdowns", "6", "--ranks", "2", "--quiet", "0", "--json", "--timeout-s", "200"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["slowdowns"] == 6
    assert result["named"] >= 5, result["wrong"]  # others may be named beside it: tests run on machines with neighbours
