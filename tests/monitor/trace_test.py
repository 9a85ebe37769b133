"""Traces and step metrics as a viewer reads them: with Python's own json and csv, from a program that records real spans."""

from __future__ import annotations

import collections
import csv
import json
import pathlib

import pytest

from tests.conftest import run_with_deadline

NUM_STEPS = 6


@pytest.fixture
def sample(build_dir: pathlib.Path):
    def run(*words: object, code: int = 0) -> str:
        done = run_with_deadline([str(build_dir / "bin" / "trace_sample"), *map(str, words)])
        assert done.code == code, done.err
        return done.out

    return run


def spans_of(trace: list[dict]) -> list[dict]:
    return [event for event in trace if event["ph"] == "X"]


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def ends(event: dict) -> int:
    return ns(event["ts"]) + ns(event["dur"])


def rows_of(trace: list[dict]) -> dict[tuple[int, str], list[dict]]:
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    rows = collections.defaultdict(list)
    for event in spans_of(trace):
        rows[event["pid"], names[event["pid"], event["tid"]]].append(event)
    return rows


def check_nesting(trace: list[dict]) -> None:
    for row, events in rows_of(trace).items():
        open_until: list[int] = []
        for event in sorted(events, key=lambda e: (ns(e["ts"]), -ends(e))):
            while open_until and open_until[-1] <= ns(event["ts"]):
                open_until.pop()
            assert not open_until or ends(event) <= open_until[-1], (row, event)
            open_until.append(ends(event))


def test_a_trace_is_json_and_every_row_nests(sample, tmp_path):
    sample("rank", tmp_path, 3, NUM_STEPS)
    trace = json.loads((tmp_path / "trace.rank_3.json").read_text())
    check_nesting(trace)
    rows = rows_of(trace)
    assert {name for pid, name in rows if pid == 3} >= {"compute", "reduce", "exposed wait"}
    assert len([e for e in spans_of(trace) if e["cat"] == "reduce"]) == 2 * NUM_STEPS
    assert {e["args"]["bucket"] for e in spans_of(trace) if e["cat"] == "reduce"} == {0, 1}
    assert [e["args"]["name"] for e in trace if e["name"] == "process_name"] == ["rank 3 on here"]
    assert any(e["name"] == 'optimizer "AdamW"\n' for e in spans_of(trace))


def test_the_parts_of_a_step_add_up_and_the_metrics_say_the_same(sample, tmp_path):
    sample("rank", tmp_path, 0, NUM_STEPS)
    compute = rows_of(json.loads((tmp_path / "trace.rank_0.json").read_text()))[0, "compute"]
    waits = rows_of(json.loads((tmp_path / "trace.rank_0.json").read_text()))[0, "exposed wait"]
    with open(tmp_path / "metrics.rank_0.csv", newline="") as file:
        table = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "metrics.rank_0.jsonl").read_text().splitlines()]
    steps = [e for e in compute if e["cat"] == "step"]
    assert [e["args"]["step"] for e in steps] == list(range(1, NUM_STEPS + 1)) == [int(row["step"]) for row in table]
    for step, row, line in zip(steps, table, lines, strict=True):
        inside = [e for e in compute if e is not step and ns(step["ts"]) <= ns(e["ts"]) < ends(step)]
        assert [e["cat"] for e in inside] == ["forward", "backward", "optimizer"]
        parts, whole = sum(ns(e["dur"]) for e in inside), ns(step["dur"])
        # Between the parts is only the start of two threads: on a busy machine that can take long, but never less than nothing.
        assert 0 < parts <= whole
        waited = sum(ns(e["dur"]) for e in waits if ns(step["ts"]) <= ns(e["ts"]) < ends(step))
        assert float(row["exposed_comm_ms"]) * 1e6 == pytest.approx(waited, abs=1)
        assert float(row["step_ms"]) * 1e6 == pytest.approx(whole, abs=1)
        assert sum(float(row[f"{name}_ms"]) for name in ("forward", "backward", "optimizer")) * 1e6 == pytest.approx(parts, abs=2)
        assert line["step_ms"] == float(row["step_ms"])
        assert row["loss"] == "" and "loss" not in line


def test_ranks_merge_into_one_timeline(sample, tmp_path):
    for rank in (0, 1):
        sample("rank", tmp_path, rank, 2)
    paths = [tmp_path / f"trace.rank_{rank}.json" for rank in (0, 1)]
    assert sample("merge", tmp_path / "all.json", *paths) == "0 cut short\n"
    trace = json.loads((tmp_path / "all.json").read_text())
    check_nesting(trace)
    ends_of_0 = max(ends(e) for e in spans_of(trace) if e["pid"] == 0)
    assert ends_of_0 < min(ns(e["ts"]) for e in spans_of(trace) if e["pid"] == 1), "rank 1 ran after rank 0, on the same clock"
    alone = spans_of(json.loads(paths[0].read_text()))
    assert [e["dur"] for e in spans_of(trace) if e["pid"] == 0] == [e["dur"] for e in alone]


def test_what_a_killed_rank_left_can_be_read(sample, tmp_path):
    sample("rank", tmp_path, 0, 3, "--die", code=9)
    path = tmp_path / "trace.rank_0.json"
    text = path.read_text()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert len(spans_of(json.loads(text + "]"))) >= 3 * 4, "a closing bracket is all that is missing"
    path.write_text(text[:-20])
    assert sample("merge", tmp_path / "all.json", path) == "1 cut short\n"
    assert len(spans_of(json.loads((tmp_path / "all.json").read_text()))) == len(spans_of(json.loads(text + "]"))) - 1
