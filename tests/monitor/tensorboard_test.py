"""Event files as TensorBoard reads them: with its own EventAccumulator where it is installed, and always with a strict reader of our own that
takes nothing but what the formats allow (TFRecord frames, masked CRC-32C, the fields of event.proto and summary.proto)."""

from __future__ import annotations

import collections
import csv
import pathlib
import re
import struct
import time

import pytest

from tests.conftest import run_with_deadline

LOSS, LR, NORM = "Train/Samples/train_loss", "Train/Samples/lr", "Train/Weft/grad_norm"
TAGS = [LOSS, LR, NORM, "Train/Samples/elapsed_time_ms_forward"]


def crc32c(data: bytes) -> int:
    """Bit by bit: slow and plain, to hold the table of the writer against."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records_of(data: bytes) -> list[bytes]:
    out, at = [], 0
    while at < len(data):
        (size, size_crc) = struct.unpack_from("<QI", data, at)
        assert size_crc == masked(crc32c(data[at : at + 8])), f"length at {at}"
        content = data[at + 12 : at + 12 + size]
        assert len(content) == size, f"torn record at {at}"
        (crc,) = struct.unpack_from("<I", data, at + 12 + size)
        assert crc == masked(crc32c(content)), f"content at {at}"
        out.append(content)
        at += size + 16
    return out


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift, more = at + 1, shift + 7, data[at] & 0x80
        if not more:
            return value, at


# Field number -> name, wire type, what is inside. Anything else in a file is a mistake.
SUMMARY_METADATA = {1: ("plugin_data", 2, {1: ("plugin_name", 2, str)}), 4: ("data_class", 0, int)}
VALUE = {1: ("tag", 2, str), 2: ("simple_value", 5, "<f"), 9: ("metadata", 2, SUMMARY_METADATA)}
EVENT = {
    1: ("wall_time", 1, "<d"),
    2: ("step", 0, int),
    3: ("file_version", 2, str),
    5: ("summary", 2, {1: ("value", 2, VALUE)}),
    7: ("session_log", 2, {1: ("status", 0, int)}),
}


def message(data: bytes, fields: dict) -> dict[str, list]:
    out, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        name, wire, inside = fields[key >> 3]
        assert key & 7 == wire, name
        if wire == 0:
            value, at = varint(data, at)
        elif wire in (1, 5):
            (value,) = struct.unpack_from(inside, data, at)
            at += struct.calcsize(inside)
        else:
            size, at = varint(data, at)
            piece, at = data[at : at + size], at + size
            assert len(piece) == size, name
            value = piece.decode() if inside is str else message(piece, inside)
        out[name].append(value)
    return dict(out)


def events_of(path: pathlib.Path) -> list[dict]:
    return [message(record, EVENT) for record in records_of(path.read_bytes())]


def points_of(events: list[dict], tag: str) -> list[tuple[int, float]]:
    return [(e["step"][0], v["simple_value"][0]) for e in events if "summary" in e for v in e["summary"][0]["value"] if v["tag"] == [tag]]


@pytest.fixture
def play(build_dir: pathlib.Path, tmp_path: pathlib.Path):
    """Plays a run and returns the event files there are, oldest first."""

    def run(*words: object) -> list[pathlib.Path]:
        done = run_with_deadline([str(build_dir / "bin" / "sinks_sample"), str(tmp_path), *map(str, words)])
        assert done.code == 0 and not done.err, done.err
        return sorted((tmp_path / "tb" / "job").iterdir(), key=lambda path: path.stat().st_mtime_ns)

    return run


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283


def test_every_record_is_as_the_format_has_it(play):
    before = time.time()
    (path,) = play(1, 20, 1)
    assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\..*\.\d+\.\d+", path.name)
    first, *rest = events_of(path)
    assert set(first) == {"wall_time", "file_version"} and first["file_version"] == ["brain.Event:2"]
    assert all(before - 1 <= event["wall_time"][0] <= time.time() + 1 for event in (first, *rest))
    assert [event["step"] for event in rest] == [[8 * step] for step in range(1, 21)]
    values = rest[0]["summary"][0]["value"]
    assert [value["tag"] for value in values] == [[tag] for tag in TAGS]
    assert all(value["metadata"] == [{"plugin_data": [{"plugin_name": ["scalars"]}], "data_class": [1]}] for value in values)
    assert not any("metadata" in value for event in rest[1:] for value in event["summary"][0]["value"])
    assert points_of(rest, LR) == [(8 * step, step / 1024) for step in range(1, 21)]


def test_a_resumed_run_has_a_file_of_its_own_that_says_from_where(play):
    old = play(1, 20, 1)[0].read_bytes()
    first, second = play(11, 30, 2, "--resumed")
    assert first.read_bytes() == old
    version, session, *rest = events_of(second)
    assert version["file_version"] == ["brain.Event:2"]
    assert session["session_log"] == [{"status": [1]}] and session["step"] == [88]
    assert points_of(rest, LR)[0] == (88, 110 / 1024)


def accumulated(folder: pathlib.Path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is not installed: pip install tensorboard")
    found = loader.EventAccumulator(str(folder), size_guidance={loader.SCALARS: 0})
    return found.Reload()


def test_tensorboard_reads_the_curves(play, tmp_path):
    play(1, 500, 1)
    found = accumulated(tmp_path / "tb" / "job")
    assert sorted(found.Tags()["scalars"]) == sorted(TAGS)
    assert [(point.step, point.value) for point in found.Scalars(LR)] == [(8 * step, step / 1024) for step in range(1, 501)]
    assert found.SummaryMetadata(LOSS).plugin_data.plugin_name == "scalars"
    assert abs(found.FirstEventTimestamp() - time.time()) < 600


def test_tensorboard_forgets_what_a_resumed_run_makes_again(play, tmp_path):
    (first,) = play(1, 20, 1)
    # Names have whole seconds and TensorBoard goes by them; here both runs may fall into one.
    first.rename(first.with_name(re.sub(r"\d{10}", lambda found: str(int(found[0]) - 60), first.name, count=1)))
    play(11, 30, 2, "--resumed")
    found = accumulated(tmp_path / "tb" / "job")
    expected = [(8 * step, step / 1024) for step in range(1, 11)] + [(8 * step, 10 * step / 1024) for step in range(11, 31)]
    assert [(point.step, point.value) for point in found.Scalars(LR)] == expected


def test_tensorboard_takes_a_file_that_stops_anywhere(play, tmp_path):
    (path,) = play(1, 3, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert [point.step for point in accumulated(tmp_path / "tb" / "job").Scalars(LR)] == [8, 16]


def test_csv_files_are_as_deepspeed_lays_them_out(play, tmp_path):
    play(1, 3, 1)
    play(3, 4, 2, "--resumed")
    folder = tmp_path / "csv" / "job"
    assert sorted(path.name for path in folder.iterdir()) == sorted(tag.replace("/", "_") + ".csv" for tag in TAGS)
    with (folder / "Train_Samples_lr.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["step", "lr"]
    assert [(int(x), float(value)) for x, value in rows[1:]] == [(8, 1 / 1024), (16, 2 / 1024), (24, 30 / 1024), (32, 40 / 1024)]
