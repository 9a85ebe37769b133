"""tools/bundle_deps: its folder is enough to build with where the packages are hidden, and every failure has a sentence.

Hidden means gone: in a mount namespace of its own a layer lies over /usr, and what the folder holds is deleted there.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from small_tree import DEADLINE_S, REPO, Outcome, run

pytestmark = pytest.mark.xdist_group("bundle")

PROBE = REPO / "tests/house/bundle_probe"
# CMake, curl and the compiler load these themselves; a test hides them when it has built what it runs.
OF_THE_TOOLS = ("libz.so.1", "libssl.so.3", "libcrypto.so.3", "libbrotli")
# LAYER is an empty folder, HIDDEN a list of files.
HIDE = """
set -e
mount -t tmpfs tmpfs "$LAYER"
mkdir "$LAYER/upper" "$LAYER/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$LAYER/upper,workdir=$LAYER/work" /usr
xargs rm -f < "$HIDDEN"
"""
BUILD_PROBE = """
cmake -G Ninja -S "$SOURCE" -B "$BUILD" -DCMAKE_BUILD_TYPE=None -DCMAKE_PREFIX_PATH="$BUNDLE"
cmake --build "$BUILD"
xargs rm -f < "$HIDDEN.too"
exec "$BUILD/probe"
"""
BUILD_WEFT = """
cmake -S "$SOURCE" -B "$BUILD" --preset release -DWEFT_WITH_TESTS=OFF -DWEFT_TORCH_ROOT="$TORCH" -DCMAKE_PREFIX_PATH="$BUNDLE"
cmake --build "$BUILD"
xargs rm -f < "$HIDDEN.too"
exec "$BUILD/bin/weft" --version
"""


def can_hide() -> bool:
    return os.geteuid() == 0 and run("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt").code == 0


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    if shutil.which("dpkg-query") is None:
        pytest.skip("bundle_deps copies Debian packages, and this machine has no dpkg")
    folder = tmp_path_factory.mktemp("bundle") / "deps"
    outcome = run(REPO / "tools/bundle_deps", folder)
    assert outcome.code == 0, outcome.lines
    assert outcome.lines[-1].startswith("bundled ") and outcome.lines[-1].endswith(f" in {folder}")
    return folder


def in_the_system(bundle: Path) -> list[str]:
    """What the folder holds, by the names that the packages gave it."""
    return [f"/usr/{path.relative_to(bundle)}" for path in bundle.rglob("*") if path.is_symlink() or path.is_file()]


def without_packages(bundle: Path, tmp_path: Path, script: str, **variables: object) -> Outcome:
    """Runs the script where all that `bundle` holds is hidden."""
    if not can_hide():
        pytest.skip("hiding packages needs root and mount namespaces")
    hidden = in_the_system(bundle)
    at_once = [name for name in hidden if not name.rsplit("/", 1)[1].startswith(OF_THE_TOOLS)]
    (tmp_path / "hidden").write_text("\n".join(at_once))
    (tmp_path / "hidden.too").write_text("\n".join(hidden))
    (tmp_path / "layer").mkdir()
    places = {"LAYER": tmp_path / "layer", "HIDDEN": tmp_path / "hidden", "BUILD": tmp_path / "build", **variables}
    words = ["env", *(f"{name}={value}" for name, value in places.items()), "unshare", "-m", "bash", "-c", HIDE + script]
    return run(*words, deadline_s=3600 if script is BUILD_WEFT else DEADLINE_S)


def test_no_link_leads_out_of_the_folder(bundle):
    links = [path for path in bundle.rglob("*") if path.is_symlink()]
    assert bundle / "lib/x86_64-linux-gnu/libz.so" in links or not (bundle / "lib/x86_64-linux-gnu").exists()
    for link in links:
        assert link.exists() and link.resolve().is_relative_to(bundle.resolve()), link


def test_a_program_is_built_from_the_folder_and_runs_where_the_packages_are_hidden(bundle, tmp_path):
    outcome = without_packages(bundle, tmp_path, BUILD_PROBE, SOURCE=PROBE, BUNDLE=bundle)
    assert outcome.code == 0 and outcome.lines[-1] == "probe ok", "\n".join(outcome.lines[-40:])


def test_what_the_folder_lacks_is_missed(bundle, tmp_path):
    """Else the test above would find the distribution's."""
    lacking = tmp_path / "lacking"
    shutil.copytree(bundle, lacking, symlinks=True)
    (lacking / "include/yaml.h").unlink()
    outcome = without_packages(bundle, tmp_path, BUILD_PROBE, SOURCE=PROBE, BUNDLE=lacking)
    assert outcome.code != 0 and any("libyaml was not found" in line for line in outcome.lines), outcome.lines


@pytest.mark.skipif("WEFT_TEST_ALL" not in os.environ, reason="builds all of weft, which takes minutes: set WEFT_TEST_ALL=1")
def test_weft_is_built_from_the_folder(bundle, tmp_path):
    cache = (REPO / os.environ.get("WEFT_BUILD_DIR", "build/release") / "CMakeCache.txt").read_text()
    torch = re.search(r"^WEFT_TORCH_ROOT:PATH=(.*)$", cache, re.MULTILINE)
    assert torch, cache
    outcome = without_packages(bundle, tmp_path, BUILD_WEFT, SOURCE=REPO, BUNDLE=bundle, TORCH=torch[1])
    assert outcome.code == 0 and "io_uring  yes" in outcome.lines, "\n".join(outcome.lines[-40:])


def test_help_and_wrong_usage():
    shown = run(REPO / "tools/bundle_deps", "--help")
    assert shown.code == 0 and "  tools/bundle_deps FOLDER" in shown.lines
    for words in ((), ("a", "b"), ("--fast",)):
        outcome = run(REPO / "tools/bundle_deps", *words)
        assert outcome.code == 2 and outcome.lines[0].startswith("error: name one folder"), outcome.lines


def stand_in(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("dpkg_query, dpkg, said", [
    ('case "$*" in *libyaml-dev*) exit 1 ;; *) printf installed ;; esac', "", "error: packages to copy are not installed: libyaml-dev"),
    ("printf installed", "", "error: libfmt-dev has no header and no library"),
    ("printf installed", "echo /usr/include/gone.h", "error: /usr/include/gone.h leads nowhere"),
    ("printf installed", "exit 3", "error: bundle_deps could not go on copying libfmt-dev"),
])
def test_a_failure_says_what_and_what_to_do(tmp_path, dpkg_query, dpkg, said):
    stand_in(tmp_path, "dpkg-query", dpkg_query)
    stand_in(tmp_path, "dpkg", dpkg)
    outcome = run("env", f"PATH={tmp_path}:{os.environ['PATH']}", REPO / "tools/bundle_deps", tmp_path / "deps")
    assert outcome.code == 1 and said in outcome.lines, outcome.lines
    assert any(line.startswith("  do: ") for line in outcome.lines)
