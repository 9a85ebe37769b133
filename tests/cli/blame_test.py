"""`weft blame` as a user runs it: dumps in a folder, a verdict, exit codes, the picture."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import subprocess
import xml.etree.ElementTree

import pytest

START_NS = 1_800_000_000_000_000_000
MS = 1_000_000


def call(sequence: int, finished: bool = True, **changes) -> dict:
    start = START_NS + sequence * 10 * MS
    entry = {"group": "world", "operation": "all_reduce", "sequence": sequence, "bytes": 4 << 20, "dtype": "float", "reduce_op": "sum", "peer": -1,
             "transport": "shm", "start_ns": start, "end_ns": start + 5 * MS if finished else 0, "state": "finished" if finished else "started"}
    return entry | changes


def dump(rank: int, entries: list[dict], world: int = 4, **changes) -> dict:
    head = {"schema": 1, "rank": rank, "world": world, "host": "node0", "pid": 100 + rank, "run_id": "r", "reason": "", "time": "2026-11-15T01:45:00Z",
            "recorded": len(entries), "groups": {"world": list(range(world))}, "entries": entries}
    return head | changes


@pytest.fixture
def folder(tmp_path):
    """Writes the dumps of a run whose four ranks finished #1 to #5; `last` changes what each did after that."""

    def write(last: dict[int, list[dict]] | None = None, ranks=range(4), **changes) -> pathlib.Path:
        flight = tmp_path / "flight"
        flight.mkdir()
        for rank in ranks:
            entries = [call(sequence) for sequence in range(1, 6)] + (last or {}).get(rank, [])
            (flight / f"flight.rank_{rank}.json").write_text(json.dumps(dump(rank, entries, **changes)))
        return flight

    return write


def test_nothing_to_blame(weft, folder):
    done = weft("blame", str(folder()))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("verdict: nothing differs")


def test_the_rank_that_never_came(weft, folder):
    wait = [call(6, finished=False)]
    flight = folder({0: wait, 1: wait, 3: wait})
    done = weft("blame", str(flight))
    assert done.code == 1
    assert done.out.splitlines()[0] == "verdict: rank 2 never reached all_reduce #6 of group world; ranks 0, 1, 3 wait there"
    assert "rank 2 last finished all_reduce #5 there: all_reduce of 4.0 MiB" in done.out
    verdict = json.loads(weft("blame", str(flight), "--json").out)["verdict"]
    assert {key: verdict[key] for key in ("kind", "rank", "group", "sequence", "operation")} == {
        "kind": "never_reached", "rank": 2, "group": "world", "sequence": 6, "operation": "all_reduce"}


def test_the_rank_that_died(weft, folder):
    wait = [call(6, finished=False)]
    done = weft("blame", str(folder({0: wait, 1: wait, 3: wait}, ranks=(0, 1, 3), reason="PeerLost: rank 2 of 4 died")))
    assert done.code == 1
    assert done.out.startswith("verdict: no dump from rank 2")
    assert "ranks 0, 1, 3 say: PeerLost: rank 2 of 4 died" in done.out


def test_the_rank_that_called_something_else(weft, folder):
    waits = {rank: [call(6, finished=False)] for rank in range(4)}
    waits[1] = [call(6, finished=False, operation="all_gather")]
    done = weft("blame", str(folder(waits)))
    assert done.code == 1
    assert done.out.startswith("verdict: rank 1 called all_gather of 4.0 MiB")


def test_the_picture_stands_alone(weft, folder, tmp_path):
    wait = [call(6, finished=False)]
    done = weft("blame", str(folder({0: wait, 1: wait, 3: wait})), "--svg", "blame.svg")
    assert done.code == 1
    text = (tmp_path / "blame.svg").read_text()
    assert xml.etree.ElementTree.fromstring(text).get("viewBox")
    assert "href" not in text and "rank 3" in text


BROKEN = {
    "no dumps": (None, "no flight recorder dumps there"),
    "not JSON": ("{\"schema\": 1,\n oops", "the dump is not JSON"),
    "cut off": (json.dumps(dump(0, [call(1)]))[:100], "the dump ends too early"),
    "another schema": (json.dumps(dump(0, []) | {"schema": 2}), "schema is 2"),
    "wrong type": (json.dumps(dump(0, [call(1, bytes="many")])), "entries[0].bytes is \"many\""),
    "another rank": (json.dumps(dump(1, [])), "not of the rank its name says"),
}


@pytest.mark.parametrize("text, words", BROKEN.values(), ids=BROKEN.keys())
def test_bad_input(weft, tmp_path, text, words):
    if text is not None:
        (tmp_path / "flight.rank_0.json").write_text(text)
    done = weft("blame", ".")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert text is None or "flight.rank_0.json" in done.err


def test_wrong_usage(weft):
    assert weft("blame").code == 2
    done = weft("blame", "nowhere")
    assert done.code == 2 and "nowhere" in done.err
    assert "did you mean --json?" in weft("blame", ".", "--jsn").err


def test_colour_only_on_a_terminal(weft, folder, build_dir):
    flight = folder({0: [call(6, finished=False)]})
    assert "\x1b" not in weft("blame", str(flight)).out
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        done = subprocess.run([str(build_dir / "bin" / "weft"), "blame", str(flight)], stdout=theirs, timeout=60, check=False, env=environment)
        os.close(theirs)
        assert done.returncode == 1 and b"\x1b[" in terminal.read(4096)


def test_completion_knows_the_flags(weft):
    assert {"--json", "--svg"} <= set(weft("completion", "words", "blame", "--").out.split())
