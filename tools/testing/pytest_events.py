"""A pytest plugin: tells tools/test what happens, a JSON line for each event, and runs the long ones first.

With pytest-xdist it runs in every worker, where it only sorts and chooses; the events come from the process that leads them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("weft")
    group.addoption("--weft-events", type=int, default=-1, help="the descriptor that takes the events")
    group.addoption("--weft-filter", default="", help="run the cases that have this text in their name")
    group.addoption("--weft-times", default="", help="a file with the seconds of each case")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.weft_events >= 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Events(config.option.weft_events))


def known_times(path: str) -> dict[str, float]:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def unit_of(item: pytest.Item) -> str:
    """What goes to one worker as a whole: the cases of one xdist_group, or a case."""
    group = item.get_closest_marker("xdist_group")
    return str(group.args[0]) if group and group.args else item.nodeid


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.option.weft_filter
    left_out = [item for item in items if wanted not in item.nodeid]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if wanted in item.nodeid]
    times = known_times(config.option.weft_times)
    unit_s: dict[str, float] = {}
    for item in items:
        unit = unit_of(item)
        unit_s[unit] = unit_s.get(unit, 0.0) + times.get(item.nodeid, 0.0)
    # Without a time all stay where they are. Cases of a unit stay together, in their order.
    items.sort(key=lambda item: (-unit_s[unit_of(item)], unit_of(item) if unit_s[unit_of(item)] else ""))


def plain_id(nodeid: str) -> str:
    """Without the "@group" that xdist adds."""
    return nodeid[: nodeid.rfind("@")] if nodeid.rfind("@") > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid


class Events:
    def __init__(self, fd: int):
        self._out = os.fdopen(fd, "w", encoding="utf-8")
        os.set_inheritable(fd, False)
        self._under_way: dict[str, dict] = {}
        self._collected = False

    def _tell(self, **event: object) -> None:
        print(json.dumps(event), file=self._out, flush=True)

    def _tell_collected(self, ids: list[str]) -> None:
        if not self._collected:
            self._collected = True
            self._tell(kind="collected", ids=[plain_id(one) for one in ids])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # empty in the process that leads workers
            self._tell_collected([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self._tell_collected(list(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(kind="result", id=f"{report.nodeid}::collection", outcome="failed", seconds=0, text=str(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = plain_id(report.nodeid)
        event = self._under_way.setdefault(name, {"kind": "result", "id": name, "outcome": "passed", "seconds": 0.0, "text": ""})
        event["seconds"] += report.duration
        if report.failed:
            event |= {"outcome": "failed", "text": event["text"] + report.longreprtext + output_of(report)}
        elif report.skipped and event["outcome"] == "passed":
            event |= {"outcome": "skipped", "text": why_skipped(report)}
        # A worker that crashed has a report of another kind, and no more after it.
        if report.when not in ("setup", "call"):
            self._tell(**self._under_way.pop(name))


def output_of(report: pytest.TestReport) -> str:
    return "".join(f"\n--- {title}\n{text}" for title, text in report.sections)


def why_skipped(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
