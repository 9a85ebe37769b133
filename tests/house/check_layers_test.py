"""tools/check_layers.py finds each kind of offence, at its line, and leaves a clean tree alone."""

from __future__ import annotations

import pytest

TABLE = """# room | torch | includes from
base         | no  |
config       | no  |
plan         | no  |
comm         | yes |
engine       | yes | plan comm
doctor/rules | no  | plan
cli/worker   | yes | *
"""

CLEAN = {
    "tools/layers.txt": TABLE,
    "weft/weft.h": '#include "weft/base/a.h"\n#include "weft/engine/e.h"\n',
    "weft/base/a.h": "#include <string>\n",
    "weft/config/c.h": '#include "weft/base/a.h"\n',
    "weft/plan/p.h": '#include "weft/base/a.h"\n#include "weft/config/c.h"\n#include "weft/plan/p_impl.h"\n',
    "weft/plan/p_test.cpp": '#include "tests/support/ranks.h"\n#include "weft/plan/p.h"\n',
    "weft/comm/g.cpp": "#include <torch/torch.h>\n#include <ATen/ATen.h>\n",
    "weft/engine/e.h": '#include "weft/comm/g.h"\n#include "weft/plan/p.h"\n',
    "weft/engine/CMakeLists.txt": "weft_room(engine TORCH\n  SOURCES e.cpp\n  LINKS weft::base weft::plan weft::comm)\n",
    "weft/doctor/rules/r.cpp": '#include "weft/plan/p.h"\n',
    "weft/cli/worker/w.cpp": '#include "examples/gpt/gpt.h"\n#include "weft/engine/e.h"\n',
    "examples/gpt/gpt.h": "#include <torch/torch.h>\n",
    "examples/gpt/gpt.cpp": '#include "examples/gpt/gpt.h"\n\n#include "weft/engine/e.h"\n',
    "tests/multirank/m_test.cpp": '#include "examples/gpt/gpt.h"\n#include "weft/cli/worker/w.h"\n',
}


@pytest.fixture
def clean(tree):
    for name, text in CLEAN.items():
        tree.add(name, text)
    return tree


def test_clean_tree_passes_with_one_line(clean, tool):
    outcome = tool("check_layers.py", "--root", clean.root)
    assert outcome == (0, ["layers: 12 files, 21 includes, all within tools/layers.txt"])


# file, text, line of the offence, words of the message
OFFENCES = {
    "outside the row": (
        "weft/plan/x.cpp",
        '#include <string>\n\n#include "weft/comm/g.h"\n',
        3,
        "room plan may not include weft/comm/g.h (its row allows: base config)",
    ),
    "base looks up": ("weft/base/x.h", '#include "weft/config/c.h"\n', 1, "room base may not include weft/config/c.h"),
    "config looks up": ("weft/config/x.h", '#include "weft/plan/p.h"\n', 1, "(its row allows: base)"),
    "in angle brackets": ("weft/plan/x.cpp", "#include <weft/comm/g.h>\n", 1, "room plan may not include weft/comm/g.h"),
    "inside #if": ("weft/plan/x.cpp", '#if 0\n#  include "weft/comm/g.h"\n#endif\n', 2, "room plan may not include"),
    "in a CUDA file": ("weft/comm/x.cu", '#include "weft/plan/p.h"\n', 1, "room comm may not include weft/plan/p.h"),
    "torch in a torch-free room": ("weft/plan/x.cpp", "#include <torch/torch.h>\n", 1, "room plan is torch-free"),
    "c10 in a sub-room": ("weft/doctor/rules/x.cpp", "#include <c10/util/Exception.h>\n", 1, "doctor/rules is torch-free"),
    "a test is no exception": ("weft/plan/x_test.cpp", "#include <ATen/ATen.h>\n", 1, "room plan is torch-free"),
    "unknown room": ("weft/attic/x.h", "\n", 1, "weft/attic is not a room of tools/layers.txt"),
    "parent of a sub-room": ("weft/doctor/x.h", "\n", 1, "weft/doctor is not a room of tools/layers.txt"),
    "header of no room": ("weft/plan/x.h", '#include "weft/attic/y.h"\n', 1, "lies in no room of tools/layers.txt"),
    "relative path": ("weft/plan/x.cpp", '\n#include "p.h"\n', 2, '"p.h" does not start with one of weft/'),
    "private header": ("weft/engine/x.cpp", '#include "weft/plan/p_impl.h"\n', 1, "*_impl.h is private to room plan"),
    "product uses tests": ("weft/plan/x.cpp", '#include "tests/support/ranks.h"\n', 1, "only *_test.cpp may"),
    "test reaches past support": ("weft/plan/x_test.cpp", '#include "tests/multirank/m.h"\n', 1, "from tests/support/"),
    "room uses an example": ("weft/engine/x.cpp", '#include "examples/gpt/gpt.h"\n', 1, "room engine may not include"),
    "example uses the cli": ("examples/gpt/x.cpp", '#include "weft/cli/worker/w.h"\n', 1, "examples may not include"),
    "example uses a private header": ("examples/gpt/x.cpp", '#include "weft/plan/p_impl.h"\n', 1, "is private to its room"),
    "example uses tests": ("examples/gpt/x.cpp", '#include "tests/support/ranks.h"\n', 1, "examples may not include"),
    "surface uses the cli": ("weft/x.h", '#include "weft/cli/worker/w.h"\n', 1, "the public surface may not include"),
    "link outside the row": (
        "weft/plan/CMakeLists.txt",
        "weft_room(plan\n  SOURCES p.cpp\n  LINKS weft::base weft::comm)\n",
        3,
        "room plan may not link weft::comm (its row allows: base config)",
    ),
    "private link outside the row": (
        "weft/plan/CMakeLists.txt",
        "# a room\nweft_room(plan SOURCES p.cpp PRIVATE_LINKS weft::comm)\n",
        2,
        "room plan may not link weft::comm",
    ),
    "torch link": ("weft/plan/CMakeLists.txt", "weft_room(plan LINKS weft::torch)\n", 1, "may not link weft::torch"),
    "TORCH in a torch-free room": ("weft/plan/CMakeLists.txt", "weft_room(plan TORCH SOURCES p.cpp)\n", 1, "TORCH"),
    "a part obeys its room": ("weft/plan/CMakeLists.txt", "weft_room(plan_text LINKS weft::comm)\n", 1, "room plan may not"),
    "room without a row": ("weft/attic/CMakeLists.txt", "weft_room(attic SOURCES a.cpp)\n", 1, "has no row"),
    "test target outside the row": ("weft/plan/CMakeLists.txt", "weft_test(big_test LINKS weft::comm)\n", 1, "room plan"),
}


@pytest.mark.parametrize("offence", OFFENCES.values(), ids=OFFENCES.keys())
def test_offence_is_found_at_its_line(clean, tool, offence):
    file, text, line, words = offence
    clean.add(file, text)
    outcome = tool("check_layers.py", "--root", clean.root)
    assert outcome.code == 1
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith(f"{file}:{line}: ")
    assert words in outcome.lines[0]


# Each of these names a header that would be an offence, in a place where it includes nothing.
HARMLESS = {
    "line comment": '// #include "weft/comm/g.h"\n',
    "block comment": '/*\n#include "weft/comm/g.h"\n*/\n',
    "comment that opens a quote": '// it\'s "so\n/*\n#include "weft/comm/g.h"\n*/\n',
    "raw string": 'const char* kText = R"(\n#include "weft/comm/g.h"\n)";\n',
    "raw string with a tag": 'const char* kText = R"x(\n)"\n#include "weft/comm/g.h"\n)x";\n',
    "digit separator before a comment": "int n = 1'000; /* it's\n#include \"weft/comm/g.h\"\n*/\n",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS.keys())
def test_text_that_only_looks_like_an_include_does_not_count(clean, tool, text):
    clean.add("weft/plan/x.cpp", text)
    assert tool("check_layers.py", "--root", clean.root).code == 0


def test_comment_markers_inside_a_string_hide_nothing(clean, tool):
    clean.add("weft/plan/x.cpp", 'const char* kUrl = "http://x/*";\n#include "weft/comm/g.h"\n')
    outcome = tool("check_layers.py", "--root", clean.root)
    assert outcome.lines == [
        "weft/plan/x.cpp:2: room plan may not include weft/comm/g.h (its row allows: base config)"
    ]


def test_every_offence_is_listed(clean, tool):
    clean.add("weft/plan/x.cpp", '#include "weft/comm/g.h"\n#include "p.h"\n')
    clean.add("weft/base/x.h", "#include <ATen/ATen.h>\n")
    outcome = tool("check_layers.py", "--root", clean.root)
    assert [line.split(": ")[0] for line in outcome.lines] == ["weft/base/x.h:1", "weft/plan/x.cpp:1", "weft/plan/x.cpp:2"]


@pytest.mark.parametrize("row", ["plan | maybe |", "plan | no", "plan | no | nowhere"])
def test_broken_table_is_refused(clean, tool, row):
    clean.add("tools/layers.txt", row + "\n")
    outcome = tool("check_layers.py", "--root", clean.root)
    assert outcome.code == 1
    assert "layers.txt" in outcome.lines[0]


def test_graph_counts_includes_between_rooms(clean, tool):
    text = tool("check_layers.py", "--root", clean.root, "--graph")
    assert text.code == 0
    assert "engine -> plan (1)" in text.lines
    assert "cli/worker -> examples (1)" in text.lines
    dot = tool("check_layers.py", "--root", clean.root, "--graph", "dot")
    assert dot.lines[0] == "digraph weft {"
    assert '  "engine" -> "plan" [label="1"];' in dot.lines


def test_our_own_tree_passes(repo, tool):
    outcome = tool("check_layers.py", "--root", repo)
    assert outcome.code == 0, "\n".join(outcome.lines)
