"""cmake/WeftCuda.cmake in made-up folders: whose CUDA headers are taken, and what is said where none will do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import pytest
from small_tree import REPO, Tree, run

RUNTIME = ("cuda_runtime.h", "cuda_runtime_api.h", "cuda.h")
LIBRARIES = {"cublas": ("cublas_v2.h", "cublasLt.h"), "cusparse": ("cusparse.h",), "cusolver": ("cusolverDn.h",)}
ALL = (*RUNTIME, *(name for names in LIBRARIES.values() for name in names))
LAST = str(REPO / "weft/comm/c10d/cuda_headers")
SCRIPT = f"""
cmake_minimum_required(VERSION 3.25)
include({REPO}/cmake/WeftCuda.cmake)
foreach(name WEFT_NCCL WEFT_NCCL_WHY WEFT_NCCL_INCLUDES WEFT_NCCL_LIBRARY weft_notes)
  message("${{name}}=${{${{name}}}}")
endforeach()
"""


class Machine(Tree):
    """A site-packages with a torch in it, and whatever toolkits a test adds beside it."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.site = "venv/lib/python3.11/site-packages"
        self.torch = f"{self.site}/torch"

    def torch_with(self, cuda: str) -> None:
        self.add(f"{self.torch}/version.py", f"__version__ = '2.15.0+cu999'\ncuda: Optional[str] = '{cuda}'\nhip = None\n")
        self.nccl(f"{self.site}/nvidia/nccl")

    def nccl(self, folder: str) -> None:
        self.add(f"{folder}/include/nccl.h", "")
        self.add(f"{folder}/lib/libnccl.so.2", "")

    def headers(self, folder: str, names: tuple[str, ...], version: int = 0) -> str:
        for name in names:
            text = f"#define CUDART_VERSION  {version}\n" if name == "cuda_runtime_api.h" else ""
            self.add(f"{folder}/include/{name}", text)
        return str(self.root / folder / "include")

    def find(self, *roots: str, cuda_home: Optional[str] = None, has_nccl: bool = True) -> dict[str, str]:
        self.add("find.cmake", SCRIPT)
        options = {"WEFT_TORCH_NCCL": "ON" if has_nccl else "OFF", "WEFT_TORCH_VERSION": "2.15.0",
                   "WEFT_TORCH_ROOT": self.root / self.torch, "WEFT_CUDA_ROOTS": ";".join(str(self.root / root) for root in roots)}
        environment = ["-u", "CUDA_HOME"] if cuda_home is None else [f"CUDA_HOME={self.root / cuda_home}"]
        outcome = run("env", *environment, "cmake", *(f"-D{k}={v}" for k, v in options.items()), "-P", self.root / "find.cmake")
        assert outcome.code == 0, outcome.lines
        return dict(line.split("=", 1) for line in outcome.lines if "=" in line)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def folders_of_cuda(found: dict[str, str]) -> list[str]:
    """What weft is compiled with, between NCCL's own folder and our stand-ins."""
    assert found["WEFT_NCCL"] == "ON", found
    first, *middle, last = found["WEFT_NCCL_INCLUDES"].split(";")
    assert first.endswith("/nvidia/nccl/include") and last == LAST
    return middle


def test_wheels_of_cuda_13_share_a_folder_and_need_no_toolkit(machine):
    machine.torch_with("13.2")
    wheels = machine.headers(f"{machine.site}/nvidia/cu13", ALL, 13020)
    found = machine.find()
    assert folders_of_cuda(found) == [wheels]
    assert found["WEFT_NCCL_LIBRARY"].endswith("/nvidia/nccl/lib/libnccl.so.2")
    assert found["weft_notes"] == ""


def test_wheels_of_cuda_12_have_a_folder_each(machine):
    machine.torch_with("12.8")
    wheels = [machine.headers(f"{machine.site}/nvidia/cuda_runtime", RUNTIME, 12080)]
    wheels += [machine.headers(f"{machine.site}/nvidia/{name}", files) for name, files in LIBRARIES.items()]
    machine.headers(f"{machine.site}/nvidia/cudnn", ("cudnn.h",))
    wheels.append(machine.headers(f"{machine.site}/nvidia/cuda_nvcc", ("crt/host_defines.h",)))
    assert folders_of_cuda(machine.find()) == wheels


def test_of_two_sets_of_wheels_the_one_of_torchs_version_is_taken(machine):
    machine.torch_with("12.8")
    machine.headers(f"{machine.site}/nvidia/cu13", ALL, 13000)
    wheels = machine.headers(f"{machine.site}/nvidia/cuda_runtime", ALL, 12080)
    assert folders_of_cuda(machine.find()) == [wheels]


def test_a_toolkit_does_not_go_before_the_wheels(machine):
    """Neither of another version, nor of the same, nor the one the user named."""
    machine.torch_with("13.2")
    wheels = machine.headers(f"{machine.site}/nvidia/cu13", ALL, 13020)
    machine.headers("usr/local/cuda-12.4", ALL, 12040)
    machine.headers("usr/local/cuda-13.2", (*ALL, "crt/host_defines.h"), 13020)
    found = machine.find("usr/local/cuda-12.4", "usr/local/cuda-13.2", cuda_home="usr/local/cuda-12.4")
    assert folders_of_cuda(found) == [wheels]


def test_tritons_headers_are_of_another_version_and_not_taken(machine):
    """Its wheel has crt/, which torch's wheels have not; it also has CUDA's own headers, of the version triton likes."""
    machine.torch_with("13.2")
    wheels = machine.headers(f"{machine.site}/nvidia/cu13", ALL, 13020)
    machine.headers(f"{machine.site}/triton/backends/nvidia", (*RUNTIME, "crt/host_config.h", "crt/host_defines.h"), 13010)
    assert folders_of_cuda(machine.find()) == [wheels]


def test_without_wheels_the_toolkit_of_torchs_version_is_taken(machine):
    machine.torch_with("13.2")
    machine.headers("usr/local/cuda-13.0", ALL, 13000)
    machine.headers("usr/local/cuda-13.1", RUNTIME, 13010)
    toolkit = machine.headers("usr/local/cuda-13.2", ALL, 13020)
    assert folders_of_cuda(machine.find("usr/local/cuda-13.0", "usr/local/cuda-13.1", "usr/local/cuda-13.2")) == [toolkit]


def test_cuda_home_goes_before_other_toolkits(machine):
    machine.torch_with("13.2")
    machine.headers("usr/local/cuda", ALL, 13020)
    mine = machine.headers("opt/mine", ALL, 13020)
    assert folders_of_cuda(machine.find("usr/local/cuda", cuda_home="opt/mine")) == [mine]


def test_a_plain_libtorch_says_its_version_in_another_file(machine):
    machine.nccl(f"{machine.site}/nvidia/nccl")
    machine.add(f"{machine.torch}/build-version", "2.14.0+cu126\n")
    machine.headers("usr/local/cuda-13.0", ALL, 13000)
    toolkit = machine.headers("usr/local/cuda-12.6", ALL, 12060)
    assert folders_of_cuda(machine.find("usr/local/cuda-13.0", "usr/local/cuda-12.6")) == [toolkit]


def test_a_toolkit_of_another_version_is_named_and_left_alone(machine):
    machine.torch_with("13.2")
    machine.headers("usr/local/cuda-13.0", ALL, 13000)
    os.symlink("cuda-13.0", machine.root / "usr/local/cuda")
    found = machine.find("usr/local/cuda", "usr/local/cuda-13.0")
    assert (found["WEFT_NCCL"], found["WEFT_NCCL_INCLUDES"]) == ("OFF", "")
    why = f"torch was built with CUDA 13.2, whose headers were not found ({machine.root}/usr/local/cuda-13.0/include is CUDA 13.0)"
    assert found["WEFT_NCCL_WHY"] == why
    assert found["weft_notes"].startswith(f"weft was built without NCCL: {why}. do: install the wheels nvidia-cuda-runtime")


def test_half_a_toolkit_is_named_with_what_it_lacks(machine):
    machine.torch_with("13.0")
    half = machine.headers("usr/local/cuda", tuple(name for name in ALL if name not in ("cusparse.h", "cublasLt.h")), 13000)
    found = machine.find("usr/local/cuda")
    assert found["WEFT_NCCL"] == "OFF"
    assert found["WEFT_NCCL_WHY"].endswith(f"({half} has no cublasLt.h, cusparse.h)")


def test_without_any_headers_the_version_that_is_wanted_is_named(machine):
    machine.torch_with("13.2")
    assert machine.find()["WEFT_NCCL_WHY"] == "torch was built with CUDA 13.2, whose headers were not found"


def test_without_nccl_its_wheel_is_named(machine):
    machine.add(f"{machine.torch}/version.py", "cuda = '13.2'\n")
    machine.headers(f"{machine.site}/nvidia/cu13", ALL, 13020)
    found = machine.find()
    assert found["WEFT_NCCL"] == "OFF"
    assert "nccl.h and libnccl.so.2 were not found" in found["WEFT_NCCL_WHY"] and "nvidia-nccl" in found["weft_notes"]


def test_a_torch_without_nccl_wants_no_words(machine):
    machine.add(f"{machine.torch}/version.py", "cuda: Optional[str] = None\n")
    found = machine.find(has_nccl=False)
    assert (found["WEFT_NCCL"], found["WEFT_NCCL_WHY"], found["weft_notes"]) == ("OFF", "", "")


def test_the_stand_ins_take_the_code_for_hosts(machine):
    """As CUDA's own headers write it: without parentheses, with commas in calls, one choice in another."""
    machine.add("stand_in.cpp", """
#include <crt/host_config.h>
#include <crt/host_defines.h>
#include <nv/target>
constexpr int sum(int a, int b) { return a + b; }
__host__ __device__ constexpr int device() { NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, return sum(1, 2); , return sum(3, 4);) }
constexpr int host() {
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_53, return 8; , NV_IF_ELSE_TARGET(NV_IS_HOST, return 5; , return 6;))
}
struct __builtin_align__(16) Four { float x, y, z, w; };
static_assert(device() == 7 && host() == 5 && alignof(Four) == 16);
""")
    outcome = run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", f"-isystem{LAST}", machine.root / "stand_in.cpp")
    assert outcome.code == 0, outcome.lines
