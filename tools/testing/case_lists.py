"""Which cases a built tree has: GoogleTest's, pytest's, the fuzz targets. For tools/cases, which compares two such lists."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Iterator

from testing.python_tests import find_python

CI, NIGHTLY = "ci", "nightly"
ALL_PARAMETERS = "WEFT_TEST_ALL"  # set: suites that take too long for CI have all their cases


class CannotList(Exception):
    """A binary or pytest did not say what it has."""


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    preset: str  # release, asan, tsan, python or fuzz
    binary: str  # or the file of a Python test
    name: str
    when: str = dataclasses.field(compare=False, default=CI)

    def line(self) -> str:
        return "\t".join((self.when, self.preset, self.binary, self.name))


def read_list(path: Path) -> dict[Case, Case]:
    """Where a case is in CI and in nightly, CI counts."""
    found: dict[Case, Case] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        when, preset, binary, name = line.split("\t")
        case = Case(preset, binary, name, when)
        if case not in found or when == CI:
            found[case] = case
    return found


def said_by(command: list[str], **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)
    if done.returncode != 0:
        raise CannotList(f"{' '.join(command)} ended with exit code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def names_in(listing: str) -> Iterator[str]:
    """Of --gtest_list_tests, without cases that are switched off."""
    suite = ""
    for line in listing.splitlines():
        name = line.partition("#")[0].strip()
        if not line.startswith(" "):
            suite = name
        elif "DISABLED_" not in suite + name:
            yield suite + name


def cases_of_binary(preset: str, binary: Path) -> list[Case]:
    """What only WEFT_TEST_ALL adds is nightly's."""
    env = {key: value for key, value in os.environ.items() if key != ALL_PARAMETERS}
    usual = set(names_in(said_by([str(binary), "--gtest_list_tests"], env=env)))
    every = set(names_in(said_by([str(binary), "--gtest_list_tests"], env=env | {ALL_PARAMETERS: "1"})))
    return [Case(preset, binary.name, name, CI if name in usual else NIGHTLY) for name in sorted(usual | every)]


def cpp_cases(preset: str, build: Path) -> Iterator[Case]:
    binaries = sorted((build / "bin").glob("*_test"))
    if not binaries:
        raise CannotList(f"{build}/bin has no tests\n  do: tools/build {preset} --tests")
    for binary in binaries:
        yield from cases_of_binary(preset, binary)


def python_cases(root: Path) -> Iterator[Case]:
    out = said_by([find_python(root), "-B", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"], cwd=root)
    for line in out.splitlines():
        file, mark, name = line.partition("::")
        if mark and file.endswith(".py"):
            yield Case("python", file, name)


def fuzz_targets(root: Path) -> Iterator[Case]:
    for source in sorted((root / "tests/fuzz").glob("*_fuzz.cpp")):
        yield Case("fuzz", source.stem, "LLVMFuzzerTestOneInput")


def all_cases(root: Path, presets: list[str], nightly: dict[str, Path]) -> Iterator[Case]:
    """`nightly`: folders of builds that nightly makes, by the preset that they are a larger form of."""
    for preset in presets:
        yield from cpp_cases(preset, root / "build" / preset)
    for preset, build in nightly.items():
        for case in cpp_cases(preset, build):
            yield dataclasses.replace(case, when=NIGHTLY)
    yield from python_cases(root)
    yield from fuzz_targets(root)
