"""tools/check_words.py finds machine-specific text. The offending words are put together here: the checker reads this file."""

from __future__ import annotations

import subprocess

import pytest

OFFENCES = {
    "home folder": "see /ho" + "me/ann/data",
    "root's home": "cache=/ro" + "ot/.cache",
    "merge marker, ours": "<" * 7 + " HEAD",
    "merge marker, theirs": ">" * 7 + " branch",
}


@pytest.mark.parametrize("words", OFFENCES.values(), ids=OFFENCES.keys())
def test_offence_is_found_at_its_line(tree, tool, words):
    tree.add("docs/a.md", f"fine\n\n{words}\n")
    outcome = tool("check_words.py", "--root", tree.root)
    assert outcome.code == 1
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith("docs/a.md:3: '")


HARMLESS = {
    "relative path": "docs/ho" + "me/x and ${root}/lib and $ro" + "ot/",
    "underline of seven": "=" * 7,
    "shift operators": "out <<" + "<" * 5 + "x",
}


@pytest.mark.parametrize("words", HARMLESS.values(), ids=HARMLESS.keys())
def test_harmless_text_passes(tree, tool, words):
    tree.add("docs/a.md", words + "\n")
    assert tool("check_words.py", "--root", tree.root) == (0, ["words: 1 files, nothing that belongs to one machine"])


def test_binary_files_are_not_read(tree, tool):
    (tree.root / "a.bin").write_bytes(b"\0/ho" + b"me/ann\n")
    assert tool("check_words.py", "--root", tree.root).code == 0


def test_only_files_that_git_would_track_count(tree, tool):
    subprocess.run(["git", "init", "-q", tree.root], check=True)
    tree.add(".gitignore", "/runs/\n")
    tree.add("runs/log.txt", OFFENCES["home folder"])
    assert tool("check_words.py", "--root", tree.root).code == 0


def test_our_own_tree_passes(repo, tool):
    outcome = tool("check_words.py", "--root", repo)
    assert outcome.code == 0, "\n".join(outcome.lines)
