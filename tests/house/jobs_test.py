"""tools/jobs: as many compilers as there are cores, memory and a container's limits allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_tree import REPO, run

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path):
    """tools/jobs on a machine with so many cores and so much memory, and files of cgroups."""

    def jobs(cores: int, available_gib: float, cgroup: str = "0::/\n", **files: str) -> int:
        (tmp_path / "bin").mkdir(exist_ok=True)
        nproc = tmp_path / "bin/nproc"
        nproc.write_text(f"#!/bin/sh\necho {cores}\n")
        nproc.chmod(0o755)
        write("proc/meminfo", f"MemTotal: 99999999 kB\nMemAvailable:  {int(available_gib * 1048576)} kB\n")
        write("proc/self/cgroup", cgroup)
        for name, text in files.items():
            write(f"sys/fs/cgroup/{name.replace('__', '/').replace('_DOT_', '.')}", text)
        outcome = run("env", f"PATH={tmp_path}/bin:/usr/bin:/bin", REPO / "tools/jobs", tmp_path)
        assert outcome.code == 0, outcome.lines
        return int(outcome.lines[0])

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return jobs


def test_cores_where_there_is_memory(machine):
    assert machine(2, 8) == 2
    assert machine(16, 64) == 16


def test_memory_where_there_are_many_cores(machine):
    assert machine(64, 16) == 8
    assert machine(4, 3.9) == 1


def test_never_none(machine):
    assert machine(4, 0.5) == 1


def test_the_memory_of_a_container_counts(machine):
    assert machine(16, 64, memory_DOT_max=f"{8 * GIB}\n", memory_DOT_current=f"{2 * GIB}\n") == 3
    cached = f"anon {GIB}\ninactive_file {2 * GIB}\n"
    assert machine(16, 64, memory_DOT_max=f"{8 * GIB}\n", memory_DOT_current=f"{2 * GIB}\n", memory_DOT_stat=cached) == 4
    assert machine(16, 64, memory_DOT_max="max\n") == 16


def test_the_limit_of_a_folder_above_counts(machine):
    assert machine(16, 64, cgroup="0::/user/build\n", user__memory_DOT_max=f"{4 * GIB}\n") == 2


def test_the_first_version_of_cgroups_counts(machine):
    of_old = "5:cpuset:/\n4:memory:/box\n0::/\n"
    assert machine(16, 64, cgroup=of_old, memory__box__memory_DOT_limit_in_bytes=f"{6 * GIB}\n") == 3
    assert machine(16, 64, cgroup=of_old, memory__box__memory_DOT_limit_in_bytes="9223372036854771712\n") == 16


def test_the_share_of_cores_of_a_container_counts(machine):
    assert machine(16, 64, cpu_DOT_max="250000 100000\n") == 3
    assert machine(16, 64, cpu_DOT_max="max 100000\n") == 16


def test_this_machine_has_an_answer():
    outcome = run(REPO / "tools/jobs")
    assert outcome.code == 0 and int(outcome.lines[0]) >= 1
