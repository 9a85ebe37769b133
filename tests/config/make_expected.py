#!/usr/bin/env python3
"""Writes NAME.expected.json beside every config of the corpus: what `weft check` says about it now.

    tests/config/make_expected.py [--weft PATH] [NAME ...]

The flags of the check stay those of the file that is there. Read what changed before you keep it: the tests hold weft to these files.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
SUFFIX = ".expected.json"
# Languages and variables of the caller must not change the answer.
FIXED = ["--json", "--no-env", "--lang", "en"]


def configs() -> list[pathlib.Path]:
    return sorted(file for file in CORPUS.iterdir() if not file.name.endswith(SUFFIX))


def expected_file(config: pathlib.Path) -> pathlib.Path:
    return config.with_name(config.name + SUFFIX)


def find(resolved: dict, path: str):
    for name in path.split("."):
        resolved = resolved[name]
    return resolved


def summary(report: dict, code: int, flags: list[str]) -> dict:
    """What is compared: the problems in their order, the good rows, and the value of each setting that is not at its default."""
    set_paths = [path for path, origin in (report.get("origins") or {}).items() if origin != "default"]
    return {
        "args": flags,
        "exit": code,
        "problems": [[p["severity"], p["rule"], p["path"], p["line"]] for p in report["problems"]],
        "good": [row["path"] for row in report.get("good") or []],
        "resolved": {path: find(report["resolved"], path) for path in set_paths},
    }


def written(expected: dict) -> str:
    """One problem, one value a line: what a diff shows best."""
    rows = [f' "args": {json.dumps(expected["args"])}', f' "exit": {expected["exit"]}']
    for key in ("problems", "good"):
        inner = ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in expected[key])
        rows.append(f' "{key}": [\n{inner}\n ]' if inner else f' "{key}": []')
    inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in expected["resolved"].items())
    rows.append(f' "resolved": {{\n{inner}\n }}' if inner else ' "resolved": {}')
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=str(ROOT / "build/release/bin/weft"))
    parser.add_argument("name", nargs="*", help="configs to do; all when none is named")
    arguments = parser.parse_args()
    for config in configs():
        if arguments.name and config.name not in arguments.name:
            continue
        file = expected_file(config)
        flags = json.loads(file.read_text())["args"] if file.exists() else ["--world", "8"]
        command = [arguments.weft, "check", *FIXED, *flags, config.name]
        clean = {key: value for key, value in os.environ.items() if key != "WEFT_LOG"}
        done = subprocess.run(command, cwd=CORPUS, env=clean, capture_output=True, text=True, timeout=60, check=False)
        text = written(summary(json.loads(done.stdout), done.returncode, flags))
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(f"{file.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
