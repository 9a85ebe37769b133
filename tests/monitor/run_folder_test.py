"""What a run of several ranks leaves in its folder, for those who look at it."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

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
    assert last["cpu_percent"] > 0
    assert last["sent_bytes"] > 0
    assert 0 < last["step_ms_min"] <= last["step_ms_mean"] <= last["step_ms_max"]
    parts = sum(last[name] for name in ("data_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms"))
    assert parts == pytest.approx(last["step_ms"], rel=1e-6)
    assert last["unix_s"] > rows[0]["unix_s"] > 1.7e9


def test_the_board_has_all_ranks(run: tuple[pathlib.Path, dict]) -> None:
    board = json.loads((run[0] / "ranks.json").read_text())
    assert board["step"] == STEPS and board["world"] == RANKS
    assert [one["rank"] for one in board["ranks"]] == list(range(RANKS))
    for one in board["ranks"]:
        assert 0 < one["busy_ms"] <= one["step_ms"]
        assert one["host"] and one["rss_bytes"] > 1 << 20


def test_the_timeline_has_all_ranks_on_one_clock(run: tuple[pathlib.Path, dict]) -> None:
    timeline = json.loads((run[0] / "timeline.json").read_text())
    assert [step["step"] for step in timeline["steps"]] == [STEPS - 1, STEPS]
    assert {row["rank"] for row in timeline["rows"]} == set(range(RANKS))
    assert {"forward", "backward", "optimizer", "reduce"} <= {span[4] for span in timeline["spans"]}
    end_ns = timeline["steps"][-1]["end_ns"]
    for span in timeline["spans"]:
        assert -end_ns < span[1] <= span[2] < 2 * end_ns


def test_the_trace_has_the_steps_asked_for_and_its_arrows_meet(run: tuple[pathlib.Path, dict]) -> None:
    events = json.loads((run[0] / "trace.json").read_text())
    steps = [event for event in events if event["ph"] == "X" and event["name"] == "step"]
    assert sorted(event["args"]["step"] for event in steps) == sorted([10, 11, 12] * RANKS)
    spans = [event for event in events if event["ph"] == "X"]
    ends: dict[int, dict[str, dict]] = {}
    for event in events:
        if event["ph"] in "sf":
            assert ends.setdefault(event["id"], {}).setdefault(event["ph"], event) is event, "an arrow with two starts"
    assert ends
    for id_, both in ends.items():
        assert set(both) == {"s", "f"}, id_
        assert both["s"]["pid"] == both["f"]["pid"] and both["s"]["ts"] <= both["f"]["ts"]
        for end in both.values():
            assert any(one["pid"] == end["pid"] and one["tid"] == end["tid"] and one["ts"] - 1e-3 <= end["ts"] <= one["ts"] + one["dur"] + 1e-3 for one in spans), end


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


def test_slow_ranks_are_named() -> None:
    """A few of slow_trials.py; the whole is its own script."""
    words = [sys.executable, ROOT / "tests/monitor/slow_trials.py", "--slowdowns", "6", "--ranks", "2", "--quiet", "0", "--json", "--timeout-s", "200"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["slowdowns"] == 6
    assert result["right"] >= 5, result["wrong"]
