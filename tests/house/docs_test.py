"""The documentation: generated pages are up to date, the picture is what its script draws, links lead somewhere."""

from __future__ import annotations

import re
import sys
import tomllib
import xml.etree.ElementTree
from pathlib import Path

import pytest
from small_tree import REPO, run

sys.path.insert(0, str(REPO / "tools"))
from our_files import our_files  # noqa: E402

MAX_COLUMNS = 160
MADE_BY_TOOLS = {"docs/settings.md", "docs/rules.md"}
PAGES = [name for name in our_files(REPO) if name.endswith(".md")]
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
# [text](target) and ![text](target "title"); [text]: target below a page.
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def without_code(text: str) -> str:
    return CODE.sub("", FENCE.sub("", text))


def links_in(text: str) -> list[str]:
    return [a or b for a, b in LINK.findall(without_code(text))]


def anchors_in(text: str) -> set[str]:
    """GitHub's names of headings: lower case, no punctuation, a hyphen for each space, a number where one repeats."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        count = sum(1 for known in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", known))
        found.add(f"{slug}-{count}" if count else slug)
    return found


def broken_links(root: Path, page: str) -> list[str]:
    """What a reader would click on in vain. Other sites are not asked: a test must not need a network."""
    text = (root / page).read_text(encoding="utf-8")
    out = []
    for link in links_in(text):
        if re.match(r"[a-z][a-z+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (root / page).parent / path if path else root / page
        if path.startswith("/") or not target.exists():
            out.append(f"{page}: {link} leads nowhere")
        elif anchor and target.suffix == ".md" and anchor not in anchors_in(target.read_text(encoding="utf-8")):
            out.append(f"{page}: {link} names no heading there")
    return out


def test_there_are_pages():
    assert {"docs/README.md", "docs/architecture.md", "CONTRIBUTING.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    assert broken_links(REPO, page) == []


@pytest.mark.parametrize("page", PAGES)
def test_lines_fit(page):
    lines = (REPO / page).read_text(encoding="utf-8").splitlines()
    # The rows of a table cannot be broken; in pages that a tool writes nobody edits them either.
    long_rows = page in MADE_BY_TOOLS
    assert [f"{page}:{i}" for i, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS and not (long_rows and line.startswith("|"))] == []


def test_the_settings_are_made_from_their_table():
    done = run(sys.executable, REPO / "tools/gen_settings.py", "--check")
    assert done.code == 0, done.lines


def test_the_pages_on_zero_name_every_setting_of_its_section():
    table = tomllib.loads((REPO / "weft/config/settings.toml").read_text(encoding="utf-8"))
    pages = "".join((REPO / page).read_text(encoding="utf-8") for page in ("docs/zero.md", "docs/zero3.md"))
    keys = [row["key"] for section in table["section"] if section["path"] == "zero_optimization" for row in section["keys"]]
    inner = [section["path"].split(".")[1] for section in table["section"] if section["path"].startswith("zero_optimization.")]
    assert [key for key in keys + inner if not re.search(rf"`{key}\b", pages)] == []


def test_the_index_names_every_page():
    index = (REPO / "docs/README.md").read_text(encoding="utf-8")
    linked = {f"docs/{link}" for link in links_in(index)} | {"docs/README.md"}
    assert [page for page in PAGES if page.startswith("docs/") and page not in linked] == []


def test_a_broken_link_is_found(tree):
    web = "`[no](link.md)` [web](https://example.org/x)\n"
    tree.add("a.md", "# Some `code`, and more\n[b](b.md#two-words) [gone](c.md) ![x](x.png)\n" + web)
    tree.add("b.md", "## Two words\n[up](a.md#some-code-and-more) [bad](a.md#other)\n```\n[no](link.md)\n```\n")
    assert broken_links(tree.root, "a.md") == ["a.md: c.md leads nowhere", "a.md: x.png leads nowhere"]
    assert broken_links(tree.root, "b.md") == ["b.md: a.md#other names no heading there"]


def test_the_picture_is_the_one_the_script_draws():
    outcome = run(sys.executable, "-B", REPO / "docs/images/make_architecture_svg.py", "--check")
    assert outcome.code == 0, "\n".join(outcome.lines)


def test_the_picture_stands_alone():
    """Well-formed, scalable, titled, and nothing fetched from elsewhere."""
    text = (REPO / "docs/images/architecture.svg").read_text(encoding="utf-8")
    picture = xml.etree.ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert picture.get("viewBox")
    assert picture.find(f"{space}title") is not None and picture.find(f"{space}desc") is not None
    assert re.findall(r"href|<image|<script|@import|url\((?!#)", text) == []


def test_environment_page_is_up_to_date(tool):
    outcome = tool("gen_docs.py", "--check")
    assert outcome.code == 0, "\n".join(outcome.lines)


TABLE = "name\twho\tvalues\tdefault\tmeaning\nWEFT_LOG\tweft\tdebug, info\tinfo\tHow much is said.\n"


@pytest.fixture
def small(tree, tool):
    """One variable, read once, described, and its page written."""
    tree.add("tools/environment.tsv", TABLE)
    tree.add("weft/base/log.cpp", 'auto level = std::getenv("WEFT_LOG");  // "WEFT_OLD" is gone\n')
    assert tool("gen_docs.py", "--root", tree.root).code == 0
    return tree


def test_small_tree_agrees(small, tool):
    assert tool("gen_docs.py", "--check", "--root", small.root) == (0, ["docs: 1 environment variables, all described"])
    assert "### `WEFT_LOG`" in (small.root / "docs/environment.md").read_text()


READS = {
    "getenv": ("weft/a.cpp", 'getenv("HOME_OF_X")', "HOME_OF_X"),
    "setenv": ("weft/a.cpp", '::setenv("SOME_X", "1", 0)', "SOME_X"),
    "through a helper": ("weft/a.cpp", 'environment("WEFT_X")', "WEFT_X"),
    "os.environ": ("tests/conftest.py", 'os.environ.get("X_DIR", "")', "X_DIR"),
    "os.environ[]": ("tools/a.py", 'os.environ["X_DIR"]', "X_DIR"),
    "python without an ending": ("tools/a", '#!/usr/bin/env python3\nos.environ["X_DIR"]', "X_DIR"),
    "a test reads it": ("tests/a_test.cpp", 'getenv("WEFT_X")', "WEFT_X"),
    "shell with a default": ("tools/a", '#!/bin/sh\necho "${X_DIR:-}"', "X_DIR"),
    "shell without one": ("tools/a", '#!/bin/sh\necho "$WEFT_X"', "WEFT_X"),
    "make": ("Makefile", "all:\n\t$$WEFT_X\n", "WEFT_X"),
    "make, a default": ("Makefile", "SPEED ?= 3\n", "SPEED"),
    "cmake": ("cmake/a.cmake", "set(x $ENV{X_DIR})", "X_DIR"),
}


@pytest.mark.parametrize("case", READS.values(), ids=READS.keys())
def test_a_variable_without_a_row_is_found(small, tool, case):
    file, text, name = case
    small.add(file, text)
    outcome = tool("gen_docs.py", "--root", small.root)
    assert outcome == (1, [f"{file}: {name} has no row in tools/environment.tsv"])


def test_what_a_test_makes_up_needs_no_row(small, tool):
    small.add("weft/a_test.cpp", 'setenv("WEFT_MADE_UP", "1", 1);\ngetenv("WEFT_MADE_UP");\n')
    assert tool("gen_docs.py", "--check", "--root", small.root).code == 0


def test_a_shell_scripts_own_names_need_no_row(small, tool):
    small.add("tools/a", '#!/bin/sh\nleft=1\necho "${left:-}"\n')
    assert tool("gen_docs.py", "--check", "--root", small.root).code == 0


def test_a_row_that_nobody_reads_is_found(small, tool):
    small.add("tools/environment.tsv", TABLE + "WEFT_OLD\tweft\tany\tnone\tNothing any more.\n")
    outcome = tool("gen_docs.py", "--root", small.root)
    assert outcome == (1, ["tools/environment.tsv: WEFT_OLD is read nowhere; take its row out"])


def test_a_stale_page_is_shown_with_its_difference(small, tool):
    small.add("tools/environment.tsv", TABLE.replace("How much", "How little"))
    outcome = tool("gen_docs.py", "--check", "--root", small.root)
    assert outcome.code == 1
    assert outcome.lines[0] == "docs/environment.md is out of date: run tools/gen_docs.py"
    assert "-How much is said." in outcome.lines and "+How little is said." in outcome.lines
    assert "How much" in (small.root / "docs/environment.md").read_text(), "--check must write nothing"


@pytest.mark.parametrize(
    "table, words",
    [
        ("name\twho\n", "environment.tsv:1: the columns must be"),
        (TABLE + "WEFT_X\tweft\tany\n", "environment.tsv:3: expected 5 cells"),
        (TABLE + "WEFT_X\tnobody\tany\tnone\tText.\n", "environment.tsv:3: 'nobody' is not one of"),
        (TABLE + TABLE.splitlines()[1] + "\n", "environment.tsv:3: WEFT_LOG has a row already"),
    ],
)
def test_a_broken_table_is_refused(small, tool, table, words):
    small.add("tools/environment.tsv", table)
    outcome = tool("gen_docs.py", "--root", small.root)
    assert outcome.code == 1
    assert words in outcome.lines[0]
