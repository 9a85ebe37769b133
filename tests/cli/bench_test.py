"""`weft bench comm` as a user runs it: with --teach the steps, the times, the pictures, both languages; and measuring."""

from __future__ import annotations

import json
import pathlib
import re
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALGORITHMS = ["serial_broadcast", "tree_broadcast", "tree_reduce", "reduce_then_broadcast", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce"]
CLASSROOM_S = {"serial_broadcast": 35, "tree_broadcast": 15, "tree_reduce": 15, "reduce_then_broadcast": 30, "ring_reduce_scatter": 4.375,
               "ring_all_gather": 4.375, "ring_all_reduce": 8.75}


def teach(weft, *arguments: str):
    done = weft("bench", "comm", "--teach", *arguments)
    assert done.code == 0, done.err
    return done


def test_the_classroom_example(weft):
    text = teach(weft).out
    assert "Broadcast along a tree" in text and "15 s in 3 steps" in text and "35 s in 7 steps" in text
    assert re.search(r"step 3 +10 s \.\. 15 s +0(→|->)1  2(→|->)3  4(→|->)5  6(→|->)7", text)
    assert "8.75 s in 14 steps" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_the_same_as_json(weft):
    out = json.loads(teach(weft, "--json").out)
    assert (out["schema"], out["ranks"], out["bytes"]) == (1, 8, 5_000_000)
    assert {algorithm["name"]: algorithm["time_s"] for algorithm in out["algorithms"]} == pytest.approx(CLASSROOM_S)
    tree = out["algorithms"][1]
    assert [(t["from"], t["to"]) for t in tree["transfers"] if t["step"] == 1] == [(0, 4)]


def test_latency_and_rate_count(weft):
    out = json.loads(teach(weft, "--json", "--ranks", "2", "--bytes", "1000", "--rate", "1KB/s", "--latency", "500ms").out)
    assert out["algorithms"][0]["time_s"] == pytest.approx(1.5)
    assert out["algorithms"][6]["time_s"] == pytest.approx(2 * (0.5 + 0.5))


@pytest.mark.parametrize("ranks", ["1", "3", "7", "64"])
@pytest.mark.parametrize("size", ["0", "5", "5MB"])
def test_any_world_and_size(weft, tmp_path, ranks, size):
    teach(weft, "--ranks", ranks, "--bytes", size, "--svg", "pictures")
    names = sorted(path.stem for path in (tmp_path / "pictures").glob("*.svg"))
    assert names == sorted([*ALGORITHMS, "collectives"])
    for path in (tmp_path / "pictures").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        picture = xml.etree.ElementTree.fromstring(text)
        assert picture.get("viewBox", "").startswith("0 0 900.0 ")
        assert not re.findall(r"href|<image|<script|nan|inf\b", text), path


def test_chinese(weft):
    text = teach(weft, "--lang", "zh").out
    assert "广播：树形" in text and "第 3 步" in text and "3 步，15 s" in text


def test_the_pictures_in_the_documentation_are_those_it_draws(weft, tmp_path):
    teach(weft, "--svg", "pictures")
    for path in (tmp_path / "pictures").glob("*.svg"):
        kept = ROOT / "docs" / "images" / "collectives" / path.name
        assert kept.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), f"weft bench comm --teach --svg docs/images/collectives ({path.name})"


MISTAKES = {
    "no benchmark": (["bench"], "weft bench comm"),
    "unknown benchmark": (["bench", "disk"], "does not know 'disk'"),
    "too many ranks": (["bench", "comm", "--teach", "--ranks", "65"], "too many ranks to draw"),
    "not a rate": (["bench", "comm", "--teach", "--rate", "1MB"], "not a rate"),
    "of the other half": (["bench", "comm", "--teach", "--op", "all_reduce"], "--op belongs to measuring"),
    "misspelt": (["bench", "comm", "--tech"], "did you mean --teach?"),
}


@pytest.mark.parametrize("arguments, words", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(weft, arguments, words):
    done = weft(*arguments)
    assert done.code == 2 and words in done.err


def test_help_and_completion(weft):
    assert "comm" in weft("bench", "--help").out
    assert "--teach" in weft("bench", "comm", "--help").out
    assert weft("completion", "words", "bench", "").out == "comm\n"
    assert {"--teach", "--ranks", "--svg"} <= set(weft("completion", "words", "bench", "comm", "--").out.split())
    assert weft("completion", "words", "bench", "comm", "--lang", "").out.split() == ["en", "zh"]


def test_measures_transports_in_turn(weft, tmp_path):
    done = weft("bench", "comm", "--op", "all_reduce,reduce_scatter,all_gather,broadcast,reduce,all_to_all", "--bytes", "4K,100K", "--transport",
                "shm,shm-staged,gloo", "-n", "2", "--iters", "3", "--json", "--svg", str(tmp_path / "bench.svg"))
    assert done.code == 0, done.err
    out = json.loads(done.out)
    assert (out["schema"], out["world"]) == (1, 2) and out["memory_gbs"] > 0
    assert len(out["rows"]) == 6 * 2 * 3
    for row in out["rows"]:
        assert row["ms"] > 0 and row["busbw_gbs"] > 0 and row["limit_gbs"] > 0 and row["calls"] == 3 and row["world"] == 2
    assert {(row["op"], row["transport"]) for row in out["rows"]} >= {("all_gather", "gloo"), ("reduce", "shm")}
    xml.etree.ElementTree.parse(tmp_path / "bench.svg")


def test_measures_as_a_table_with_one_rank_too(weft):
    done = weft("bench", "comm", "--bytes", "1K", "-n", "1", "--iters", "1")
    assert done.code == 0, done.err
    assert re.search(r"all_reduce +shm +1.0* KiB", done.out), done.out


def test_taught_messages_are_sent_for_real(weft):
    done = weft("bench", "comm", "--teach", "--measured", "--ranks", "3", "--bytes", "30K", "--rate", "1GB/s", "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    assert [row["algorithm"] for row in rows] == ALGORITHMS
    assert all(row["measured_s"] > 0 for row in rows)
