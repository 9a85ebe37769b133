"""tools/build: a copy of it in a small project, with CMake, Ninja and a compiler that fails when it is told to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from small_tree import REPO, Outcome, run
from stand_ins import Place, Started, told

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
option(WEFT_WITH_TESTS "" ON)
add_executable(weft main.cpp)
set_target_properties(weft PROPERTIES RUNTIME_OUTPUT_DIRECTORY bin)
if(WEFT_WITH_TESTS)
  add_executable(a_test EXCLUDE_FROM_ALL a_test.cpp)
  add_custom_target(tests DEPENDS a_test)
endif()
"""
PRESETS = """{ "version": 6, "configurePresets": [
  { "name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}", "cacheVariables": { "LEVEL": "1" } },
  { "name": "debug", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}" } ] }"""
# Started for each file; CMake's own tries do not count.
COMPILER = """case "$*" in
  *main.cpp*)
    if [ -e {root}/says ]; then cat {root}/says >&2; exit 1; fi
    if [ -e {root}/reached ]; then echo here >{root}/reached; sleep 600; fi ;;
esac
exec {real} "$@" """


def made(root: Path, compiler_reads: str, project: str = PROJECT) -> Place:
    place = Place(root, "build", "build_configure.sh", "build_compile.sh", "build_costs", "compile", "jobs")
    for name in ("cmake", "ninja", "nproc", "as", "ld", "ar", "ranlib"):
        (root / "bin" / name).symlink_to(os.path.realpath(shutil.which(name)))
    place.stand_in("c++", COMPILER.format(root=compiler_reads, real=os.path.realpath(shutil.which("g++"))))
    (root / "CMakeLists.txt").write_text(project)
    (root / "CMakePresets.json").write_text(PRESETS)
    (root / "main.cpp").write_text("int main() {}\n")
    (root / "a_test.cpp").write_text("int main() {}\n")
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return made(tmp_path, str(tmp_path))


def built(place: Place, *flags: str, **env: str) -> list[str]:
    outcome = place.run("build", "release", *flags, **env)
    assert outcome.code == 0, outcome.lines
    return outcome.lines


def test_the_product_is_built_and_what_happens_is_said(place):
    lines = built(place, "--jobs", "2")
    assert lines == [
        "build: configuring build/release with CMake",
        "build: 2 files to compile and link into build/release with 2 jobs: nothing is built yet",
        "build: starting with 2 jobs (0%)",
        "build: weft, 2 of 2 done (100%)",
    ]
    assert (place.root / "build/release/bin/weft").exists()
    assert not (place.root / "build/release/a_test").exists(), "no test was asked for"
    assert built(place) == [], "nothing changed"


def test_tests_are_asked_for_by_name_and_stay_configured(place):
    built(place)
    built(place, "--tests")
    assert (place.root / "build/release/a_test").exists()
    assert built(place) == []
    assert built(place, "--tests") == []


def test_targets_are_built_alone(place):
    built(place, "--only", "a_test")
    assert (place.root / "build/release/a_test").exists()
    assert not (place.root / "build/release/bin/weft").exists()


def test_what_cmake_left_out_is_said_each_time(place):
    built(place)
    (place.root / "build/release/notes.txt").write_text("NCCL is left out: no headers\n")
    assert built(place) == ["build: NCCL is left out: no headers"]


def test_a_changed_file_alone_is_compiled_and_why_is_said(place):
    built(place)
    os.utime(place.root / "main.cpp")
    assert any("changed" in line and line.startswith("build: 2 files") for line in built(place, "--jobs", "1"))


@pytest.mark.parametrize("flags, said", [
    ([], "which preset? tools/build PRESET [--tests] [--only A,B] [--jobs N]"),
    (["relaese"], "there is no preset relaese; CMakePresets.json lists them"),
    (["release", "--jobs", "0"], "--jobs wants a whole number above zero, not '0'"),
    (["release", "--jobs"], "--jobs wants a whole number above zero, not 'none'"),
    (["release", "--only"], "--only wants names of targets with commas between them, not ''"),
    (["release", "--test"], "unknown option --test (known: --tests, --only A,B, --jobs N)"),
])
def test_a_wrong_call_is_refused(place, flags, said):
    assert place.run("build", *flags) == (2, [f"build: {said}"])


# --- What goes wrong ---------------------------------------------------------------------------------------------------------


def failed(place: Place, says: str) -> list[str]:
    (place.root / "says").write_text(says)
    outcome = place.run("build", "release", "--jobs", "3")
    assert outcome.code == 1
    (place.root / "says").unlink()
    return outcome.lines


def test_no_compiler(place):
    (place.root / "bin/c++").rename(place.root / "bin/hidden")
    outcome = place.run("build", "release")
    assert outcome.code == 1
    assert "error: there is no C++ compiler" in outcome.lines
    assert any(line.startswith("  do:    tools/setup") for line in outcome.lines)
    (place.root / "bin/hidden").rename(place.root / "bin/c++")
    built(place)


def test_an_error_of_the_compiler_is_shown_whole_with_the_command_that_repeats_it(place):
    lines = failed(place, "main.cpp:1:5: error: 'main' is wrong\n    1 | int main() {}\n")
    assert "main.cpp:1:5: error: 'main' is wrong" in lines
    assert lines[-3:] == ["error: build/release could not be built", "  where: build/build-release.log",
                          "  do:    tools/build release repeats just this"]
    built(place)


def test_a_full_disk(place):
    lines = failed(place, "fatal error: error writing to /tmp/ccX.s: No space left on device\n")
    assert any(line.startswith("error: no space left on the disk of /") for line in lines), lines
    assert any("MiB are free there; all of it takes about" in line for line in lines)
    built(place)


def test_too_little_memory(place):
    lines = failed(place, "g++: fatal error: Killed signal terminated program cc1plus\n")
    assert lines[-4:] == ["error: the compiler ran out of memory", "  what:  3 ran at a time", "  where: build/build-release.log",
                          "  do:    make JOBS=1"]
    built(place)


@pytest.mark.parametrize("how", ["interrupt_group", "interrupt_alone"])
def test_an_interrupted_build_ends_and_the_next_call_goes_on(place, how):
    built(place)
    os.utime(place.root / "main.cpp")
    os.mkfifo(place.root / "reached")
    started = Started(place, "build", "release")
    told(place.root / "reached")
    getattr(started, how)()
    outcome = started.end()
    assert outcome.code == 130
    assert outcome.lines[-1] == "build: interrupted; run the same command again, it goes on"
    (place.root / "reached").unlink()
    assert any(line.endswith(": these are not built yet") for line in built(place))


def test_a_second_build_waits_for_the_first_and_names_it(place):
    built(place)
    os.utime(place.root / "main.cpp")
    os.mkfifo(place.root / "reached")
    with Started(place, "build", "release") as first:
        told(place.root / "reached")
        (place.root / "reached").unlink()
        with Started(place, "build", "release") as second:
            line = second.process.stdout.readline()
            assert f"tools/build release` (process {first.process.pid}), which is at work in this tree" in line, line
            first.interrupt_group()
            assert first.end().code == 130
            assert second.end().code == 0
    assert (place.root / "build/release/bin/weft").exists()


def test_builds_of_two_presets_go_on_beside_each_other(place):
    os.mkfifo(place.root / "reached")
    with Started(place, "build", "release") as first:
        told(place.root / "reached")
        (place.root / "reached").unlink()
        outcome = place.run("build", "debug")
        assert outcome.code == 0
        assert not any("waiting" in line for line in outcome.lines)
        first.interrupt_group()
        assert first.end().code == 130


# --- An old build folder -----------------------------------------------------------------------------------------------------


def configured_anew(place: Place) -> str:
    lines = [line for line in built(place) if "from nothing" in line]
    assert len(lines) == 1, lines
    assert built(place) == []
    return lines[0].removeprefix("build: configuring build/release from nothing: ")


def test_a_folder_of_another_version_of_weft(place):
    built(place)
    (place.root / "build/release/weft-basis").unlink()
    assert configured_anew(place) == "another version of weft configured it"


def test_a_folder_of_another_tree(place, tmp_path_factory):
    built(place)
    cache = place.root / "build/release/CMakeCache.txt"
    cache.write_text(cache.read_text().replace(f"CMAKE_HOME_DIRECTORY:INTERNAL={place.root}", "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere"))
    assert configured_anew(place) == "it belongs to the tree /elsewhere"


def test_a_folder_of_another_generator(place):
    built(place)
    cache = place.root / "build/release/CMakeCache.txt"
    cache.write_text(cache.read_text().replace("CMAKE_GENERATOR:INTERNAL=Ninja", "CMAKE_GENERATOR:INTERNAL=Unix Makefiles"))
    assert configured_anew(place) == "it was made for Unix Makefiles, not for Ninja"


def test_a_compiler_that_is_gone(place):
    (place.root / "bin/c++").rename(place.root / "bin/g++")
    (place.root / "bin/c++").symlink_to("g++")
    built(place, CXX=f"{place.root}/bin/g++")
    (place.root / "bin/g++").rename(place.root / "bin/c++")
    assert configured_anew(place) == f"its compiler {place.root}/bin/g++ is gone"


def test_presets_that_changed(place):
    built(place)
    (place.root / "CMakePresets.json").write_text(PRESETS.replace('"1"', '"2"'))
    assert configured_anew(place) == "the presets or the compiler asked for changed"


def test_a_configuration_that_was_interrupted(place):
    built(place)
    (place.root / "build/release/build.ninja").unlink()
    assert configured_anew(place) == "it was left half configured"


def test_a_step_that_the_tree_cannot_make_any_more(place):
    built(place)
    ninja = place.root / "build/release/build.ninja"
    ninja.write_text(ninja.read_text().replace("main.cpp", "gone.cpp"))
    os.utime(ninja)
    assert configured_anew(place) == "it does not fit the tree any more"


def test_another_torch_configures_again_and_keeps_the_rest(place):
    built(place, WEFT_TORCH_ROOT="/one")
    lines = built(place, WEFT_TORCH_ROOT="/two")
    assert "build: configuring build/release with CMake" in lines
    assert not any("from nothing" in line for line in lines)


# --- ccache ------------------------------------------------------------------------------------------------------------------


def test_ccache_is_used_where_it_is_and_may_come_and_go(place):
    calls = place.root / "calls"
    home = {"HOME": str(place.root)}
    built(place, **home)
    place.stand_in("ccache", f'echo "$CCACHE_BASEDIR $CCACHE_NOHASHDIR" >> {calls}; exec "$@"')
    assert built(place, **home) == [], "the same commands"
    os.utime(place.root / "main.cpp")
    built(place, **home)
    assert calls.read_text() == f"{place.root} 1\n"
    os.utime(place.root / "main.cpp")
    built(place, WEFT_CCACHE="off", **home)
    assert calls.read_text() == f"{place.root} 1\n", "switched off"


def counts_of(store: Path) -> dict[str, int]:
    outcome = run("env", f"CCACHE_DIR={store}", "ccache", "--print-stats")
    return {name: int(value) for name, value in (line.split("\t") for line in outcome.lines)}


@pytest.mark.skipif(not shutil.which("ccache"), reason="ccache is not installed: tools/setup --test")
def test_a_second_clone_at_another_path_takes_its_objects_from_the_first(tmp_path):
    """With a precompiled header and a file that gathers others by their full paths, as in weft's own build."""
    project = PROJECT.replace("main.cpp)", "main.cpp more.cpp)") + """target_compile_options(weft PRIVATE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_precompile_headers(weft PRIVATE <vector>)
target_include_directories(weft PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(weft PROPERTIES UNITY_BUILD ON)
"""
    store, counts = tmp_path / "store", []
    for name in ("first", "second/below"):
        (tmp_path / name).mkdir(parents=True)
        clone = made(tmp_path / name, "", project)
        (clone.root / "bin/c++").unlink()
        (clone.root / "bin/c++").symlink_to(os.path.realpath(shutil.which("g++")))
        (clone.root / "bin/ccache").symlink_to(os.path.realpath(shutil.which("ccache")))
        (clone.root / "more.h").write_text("inline const char* here() { return __FILE__; }\n")
        (clone.root / "more.cpp").write_text('#include "more.h"\nstd::vector<const char*> all() { return {here()}; }\n')
        built(clone, CCACHE_DIR=str(store))
        counts.append(counts_of(store))
    assert counts[0]["cache_miss"] == 2, "the header and the file that gathers"
    assert counts[1]["cache_miss"] == 2, counts[1]
    assert counts[1]["direct_cache_hit"] + counts[1]["preprocessed_cache_hit"] == 2


def test_a_ccache_that_cannot_keep_anything_is_left_out(place):
    place.stand_in("ccache", "exit 1")
    lines = built(place, HOME="/proc")
    assert "build: compiling without ccache: its folder /proc/.cache/ccache cannot be written" in lines


# --- The compiler's age ------------------------------------------------------------------------------------------------------


def with_compiler(kind: str, version: str, tmp_path: Path) -> Outcome:
    script = tmp_path / "ask.cmake"
    script.write_text(f"""set(CMAKE_CXX_COMPILER /old/c++)
set(CMAKE_CXX_COMPILER_ID {kind})
set(CMAKE_CXX_COMPILER_VERSION {version})
include({REPO}/cmake/WeftCompilerVersion.cmake)
message("good")
""")
    return run("cmake", "-P", script)


@pytest.mark.parametrize("kind, version", [("GNU", "10.2.1"), ("GNU", "9.4.0"), ("Clang", "15.0.7"), ("Clang", "14.0.6")])
def test_a_compiler_that_is_too_old_is_refused_with_what_to_do(kind, version, tmp_path):
    outcome = with_compiler(kind, version, tmp_path)
    text = " ".join(line.strip() for line in outcome.lines)
    assert outcome.code == 1
    assert f"the C++ compiler is too old: /old/c++ is {kind} {version}" in text
    assert "what: weft needs GCC 11 or newer, or Clang 16 or newer" in text.replace("  ", " ")
    assert "CXX=/path/to/a/newer/compiler make" in text


@pytest.mark.parametrize("kind, version", [("GNU", "11.3.0"), ("GNU", "12.2.0"), ("Clang", "19.1.7"), ("AppleClang", "1.0")])
def test_a_compiler_that_is_new_enough_or_unknown_goes_on(kind, version, tmp_path):
    assert with_compiler(kind, version, tmp_path) == (0, ["good"])
