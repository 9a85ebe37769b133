"""Every config of the corpus gets the diagnosis recorded beside it. make_expected.py writes those records anew."""

from __future__ import annotations

import json

import pytest

from tests.config import make_expected

NAMES = [config.name for config in make_expected.configs()]


@pytest.mark.parametrize("name", NAMES)
def test_the_diagnosis_is_the_recorded_one(weft, name):
    config = make_expected.CORPUS / name
    expected = json.loads(make_expected.expected_file(config).read_text())
    done = weft("check", *make_expected.FIXED, *expected["args"], str(config))
    assert make_expected.summary(json.loads(done.out), done.code, expected["args"]) == expected, done.err


def test_no_record_is_left_without_its_config():
    records = {file.name.removesuffix(make_expected.SUFFIX) for file in make_expected.CORPUS.glob(f"*{make_expected.SUFFIX}")}
    assert records == set(NAMES)
    assert len(NAMES) >= 64


def test_records_are_in_the_form_the_tool_writes():
    for config in make_expected.configs():
        text = make_expected.expected_file(config).read_text()
        assert make_expected.written(json.loads(text)) == text, f"{config.name}: run tests/config/make_expected.py"
