"""The suites of one preset, as ctest knows them (cmake/WeftSuites.cmake made them), and which cases each has."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
from pathlib import Path

FILTER = "--gtest_filter="
USUAL_DEADLINE = ("WEFT_TEST_DEADLINE_S", "60")  # main() takes it by itself


class NoSuites(Exception):
    """ctest cannot say what there is to run."""


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str  # base_test:Aio; base_test:is_not_built for a test that is no suite
    command: tuple[str, ...]
    env: dict[str, str]
    folder: str
    cases: tuple[str, ...]  # base_test:Aio.Reads; its own name where it is no suite
    limit_s: float  # without a word of a case for so long it hangs, and so does its watchdog
    skip_code: int
    is_serial: bool

    @property
    def binary(self) -> str:
        return self.name.partition(":")[0]

    @property
    def is_plain(self) -> bool:
        """Not GoogleTest: its exit code is all it says."""
        return self.cases == (self.name,)

    def chosen(self, cases: list[str]) -> "Suite":
        """The same with some of its cases."""
        names = ":".join(case.partition(":")[2] for case in cases)
        command = tuple(FILTER + names if word.startswith(FILTER) else word for word in self.command)
        return dataclasses.replace(self, cases=tuple(cases), command=command)

    def repeat(self, case: str, root: Path) -> str:
        words = [FILTER + case.partition(":")[2] if word.startswith(FILTER) else word for word in self.command]
        if Path(words[0]).is_relative_to(root):
            words[0] = str(Path(words[0]).relative_to(root))
        env = [f"{key}={value}" for key, value in self.env.items() if (key, value) != USUAL_DEADLINE]
        return shlex.join([*env, *words])


def case_names(build: Path, binary: str) -> dict[str, list[str]]:
    """By suite, without those that are switched off."""
    try:
        lines = (build / "suites" / f"{binary}_cases.txt").read_text(encoding="utf-8").split()
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        suite, _, case = line.partition(".")
        if "DISABLED_" not in line:
            found.setdefault(suite, []).append(f"{binary}:{suite}.{case}")
    return found


def suite_of(test: dict, cases_of: dict[str, list[str]]) -> Suite:
    props = {one["name"]: one["value"] for one in test.get("properties", [])}
    suite = test["name"].partition(":")[2]
    cases = tuple(cases_of.get(suite, [])) or (test["name"],)
    timeout_s = float(props.get("TIMEOUT", 1500))
    env = dict(entry.split("=", 1) for entry in props.get("ENVIRONMENT", []))
    # ctest's limit is that of all cases and 30 s; cases that are switched off count there and make this one a little longer.
    limit_s = (timeout_s - 30) / len(cases) + 30 if len(cases) > 1 else timeout_s
    return Suite(test["name"], tuple(test["command"]), env, props.get("WORKING_DIRECTORY", "."), cases, limit_s, int(props.get("SKIP_RETURN_CODE", -1)),
                 bool(props.get("RUN_SERIAL")))


def load_suites(root: Path, preset: str) -> list[Suite]:
    done = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], cwd=root, capture_output=True, text=True, check=False)
    try:
        tests = json.loads(done.stdout)["tests"]
    except ValueError:
        raise NoSuites((done.stderr or done.stdout).strip()) from None
    if not tests:
        raise NoSuites(f"{root}/build/{preset} has no tests")
    build = root / "build" / preset
    cases = {binary: case_names(build, binary) for binary in {test["name"].partition(":")[0] for test in tests}}
    switched_off = {"name": "DISABLED", "value": True}
    return [suite_of(test, cases[test["name"].partition(":")[0]]) for test in tests if switched_off not in test.get("properties", [])]
