#!/usr/bin/env python3
"""Runs clang-tidy over our sources, several at a time, and remembers the answers.

    tools/run_tidy.py BUILD_DIR [--root DIR] [-j N] [--all] [--minutes M] [--files FILE...]

Product code and the test harness; --all takes the *_test.cpp files too. They are half the time, and what they get wrong shows
when they run, under the sanitizers as well.

An answer is good as long as nothing it depends on changed. The exact list of headers would cost as much as the analysis, so
the key takes the file, its command, .clang-tidy and *all* our headers: a changed header asks again about everything, a
changed .cpp only about itself. Exit 1 and the findings when there are any.

The files that changed last come first, by themselves or by a header of ours that they include. --minutes begins no file after
that time and says how many were left: for CI, which has no answers of earlier runs and asks about every file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

TIDY = str(Path(__file__).resolve().parent.parent / ".venv/bin/clang-tidy")
OUR_FOLDERS = ("weft", "examples", "tests")


class Answer(NamedTuple):
    file: str
    text: str  # empty when there is nothing to say
    final: bool  # False when the analysis itself failed; such an answer is not kept
    cached: bool
    skipped: bool = False  # there was no time for it


class Job(NamedTuple):
    file: str
    key: str


def version() -> bytes:
    return subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout


def only(work: list[Job], files: list[str], root: Path) -> list[Job]:
    wanted = {str((root / name).resolve()) for name in files}
    return [job for job in work if job.file in wanted]


def shared_state(root: Path) -> bytes:
    """What every answer depends on."""
    state = hashlib.sha256(version())
    headers = sorted(path for folder in OUR_FOLDERS for path in (root / folder).rglob("*.h"))
    for path in [root / ".clang-tidy", *headers]:
        state.update(str(path.relative_to(root)).encode() + b"\0")
        state.update(path.read_bytes())
    return state.digest()


def generated_state(build: Path) -> bytes:
    state = hashlib.sha256()
    for path in sorted((build / "generated").rglob("*.h")):
        state.update(path.read_bytes())
    return state.digest()


def jobs(root: Path, build: Path, with_tests: bool) -> list[Job]:
    shared = shared_state(root) + generated_state(build)
    found: dict[str, Job] = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = Path(entry["directory"], entry["file"]).resolve()
        inside = path.is_relative_to(root) and path.relative_to(root).parts[0] in OUR_FOLDERS
        left_out = path.name.endswith("_test.cpp") and not with_tests
        if not inside or left_out or str(path) in found:
            continue
        command = entry.get("command") or " ".join(entry["arguments"])
        key = hashlib.sha256(shared + command.encode() + b"\0" + path.read_bytes())
        found[str(path)] = Job(str(path), key.hexdigest())
    return list(found.values())


def commit_times(root: Path) -> dict[str, int]:
    """When each file last changed, in seconds; nothing where there is no history, as in a tree that was unpacked."""
    log = subprocess.run(["git", "-C", str(root), "log", "--format=:%ct", "--name-only"], capture_output=True, text=True)
    times: dict[str, int] = {}
    when = 0
    for line in log.stdout.splitlines() if log.returncode == 0 else ():
        if line.startswith(":"):
            when = int(line[1:])
        elif line:
            times.setdefault(line, when)
    return times


def newest_first(work: list[Job], root: Path) -> list[Job]:
    times = commit_times(root)

    def changed(file: str) -> int:
        included = re.findall(r'^#include "((?:weft|examples|tests)/[^"]+)"', Path(file).read_text(encoding="utf-8"), re.MULTILINE)
        names = [os.path.relpath(file, root), *included]
        return max(times.get(name, 0) for name in names)

    return sorted(work, key=lambda job: (-changed(job.file), job.file))


def analysed(job: Job, build: Path) -> Answer:
    command = [TIDY, "--quiet", "-p", str(build), job.file]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return Answer(job.file, "", True, False)
    # Findings go to stdout; stderr counts suppressed warnings, or says why there is no stdout.
    final = bool(done.stdout) and "clang-diagnostic-error" not in done.stdout
    return Answer(job.file, done.stdout or done.stderr or f"{TIDY} ended with {done.returncode}", final, False)


def answer(job: Job, build: Path, cache: Path, until: float) -> Answer:
    kept = cache / job.key
    if kept.is_file():
        return Answer(job.file, kept.read_text(encoding="utf-8"), True, True)
    if time.monotonic() > until:
        return Answer(job.file, "", False, False, skipped=True)
    fresh = analysed(job, build)
    if fresh.final:
        partial = cache / f"{job.key}.{os.getpid()}"
        partial.write_text(fresh.text, encoding="utf-8")
        partial.replace(kept)
    return fresh


def split(text: str) -> list[str]:
    """One piece per finding: the line that says it, and the lines that show it."""
    pieces = re.split(r"^(?=\S+:\d+:\d+: (?:error|warning): )", text, flags=re.MULTILINE)
    return [piece.rstrip() for piece in pieces if piece.strip()]


def forget_others(cache: Path, kept: set[str]) -> None:
    for path in cache.iterdir():
        if path.name not in kept:
            path.unlink()


def show_progress(done: int, total: int, file: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[Ktidy: {done}/{total} {file}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % 10 == 0:
        print(f"tidy: {done}/{total}", file=sys.stderr, flush=True)


def run_all(work: list[Job], root: Path, build: Path, workers: int, minutes: float) -> list[Answer]:
    until = time.monotonic() + 60 * minutes
    cache = build / "cache"
    cache.mkdir(exist_ok=True)
    answers: list[Answer] = []
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(answer, job, build, cache, until) for job in work]
        for done, future in enumerate(as_completed(pending), 1):
            answers.append(future.result())
            show_progress(done, len(work), os.path.relpath(answers[-1].file, root))
    return sorted(answers)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="clang-tidy over our sources, with a memory")
    parser.add_argument("build", type=Path, metavar="BUILD_DIR", help="a build folder with compile_commands.json")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the tree to check")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="files at a time")
    parser.add_argument("--all", action="store_true", help="the *_test.cpp files too")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no file after so many")
    parser.add_argument("--files", nargs="*", metavar="FILE", help="only these, relative to the root")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    root, build = options.root.resolve(), options.build.resolve()
    every = jobs(root, build, options.all)
    work = newest_first(every if options.files is None else only(every, options.files, root), root)
    answers = run_all(work, root, build, options.jobs, options.minutes)
    if options.files is None:
        forget_others(build / "cache", {job.key for job in work})
    # A header's finding comes with every file that includes it; once is enough.
    findings = dict.fromkeys(finding for found in answers for finding in split(found.text))
    for finding in findings:
        print(finding)
    looked_at = [found for found in answers if not found.skipped]
    fresh = sum(not found.cached for found in looked_at)
    if len(looked_at) < len(answers):
        print(f"tidy: no time for {len(answers) - len(looked_at)} of {len(answers)} files, those that changed longest ago")
    if findings:
        print("tidy: findings with", *(os.path.relpath(found.file, root) for found in answers if found.text))
    else:
        print(f"tidy: {len(looked_at)} files clean ({fresh} analysed, {len(looked_at) - fresh} unchanged)")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
