#!/usr/bin/env python3
"""Draws docs/images/architecture.svg: the rooms in their layers, and who includes whom.

    docs/images/make_architecture_svg.py [--check]

Which rooms there are, which side of the torch line each is on and whom it may include come from tools/layers.txt; which
of them stand, and what they include today, from the sources. This file holds only where things are drawn. A new room or
a new arrow stops the script until it has a place here. tests/house/docs_test.py compares the two.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple, Optional
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).resolve().with_name("architecture.svg")
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import check_layers  # noqa: E402

Edge = tuple[str, str]


class Place(NamedTuple):
    layer: int
    first: str  # column
    last: str  # column; the same, or further right for a wide box
    about: tuple[str, ...]


# Columns A and B are torch-free, C to E may use libtorch.
COLUMN_X = {"A": 104, "B": 314, "C": 580, "D": 774, "E": 992}
BOX_WIDTH, BOX_HEIGHT, ROW_STEP, TOP = 170, 70, 114, 142
TORCH_LINE_X = 530
LEFT_EDGE, RIGHT_EDGE = COLUMN_X["A"], COLUMN_X["E"] + BOX_WIDTH
SLABS = ("base", "config")  # open to every room above: full width, no arrows

PLACES = {
    "cli/front": Place(7, "A", "A", ("the binary weft:", "flags, help, exec")),
    "cli/worker": Place(7, "C", "D", ("the binary weft-worker:", "the training loop, the saved state")),
    "examples/gpt": Place(7, "E", "E", ("the model; knows", "nothing of weft")),
    "doctor/rules": Place(6, "B", "B", ("checks a config",)),
    "doctor/probes": Place(6, "E", "E", ("checks a machine",)),
    "engine": Place(5, "C", "D", ("autograd hooks, the gate,", "reduction, the step")),
    "monitor/live": Place(5, "A", "A", ("the live page,", "browser and terminal")),
    "optim": Place(4, "C", "C", ("optimizers,", "schedules, clipping")),
    "offload": Place(4, "D", "D", ("CPU and NVMe tiers",)),
    "checkpoint": Place(4, "E", "E", ("the store of steps,", "safetensors files")),
    "optim/core": Place(4, "A", "A", ("fused CPU updates,", "schedules")),
    "sim": Place(4, "B", "B", ("what collectives", "would cost")),
    "launcher": Place(3, "A", "A", ("starts and", "watches ranks")),
    "comm/fabric": Place(3, "B", "B", ("shared memory of the", "ranks of one host")),
    "data": Place(3, "C", "C", ("sampler, loader,", "corpus, token files")),
    "memory": Place(3, "D", "D", ("flat buffers,", "accounting")),
    "comm": Place(3, "E", "E", ("groups of ranks,", "deadlines")),
    "monitor": Place(2, "A", "A", ("progress, report,", "flight recorder")),
    "plan": Place(2, "B", "B", ("buckets, shard map,", "bytes: arithmetic")),
    "matmul": Place(2, "C", "C", ("fp32 products,", "torch's bits")),
    "config": Place(1, "A", "E", ("settings, and where each value came from",)),
    "base": Place(
        0, "A", "E", ("errors, log, units, time, hashing; files, asynchronous I/O and processes behind one Env",)
    ),
}


class Port(NamedTuple):
    side: str  # left, right, top, bottom
    at: int = 0  # pixels from the middle of that side


class Route(NamedTuple):
    start: Port
    end: Port
    via: Optional[int] = None  # x of the lane between two sides, or y of the gap between bottom and top


def gap_below(layer: int, shift: int = 0) -> int:
    """The y of the middle between a layer and the one under it."""
    return TOP + (8 - layer) * ROW_STEP - (ROW_STEP - BOX_HEIGHT) // 2 + shift


LEFT, RIGHT, TOP_SIDE, BOTTOM = "left", "right", "top", "bottom"
DOWN = Route(Port(BOTTOM), Port(TOP_SIDE))
ROUTES = {
    ("cli/front", "monitor"): Route(Port(LEFT), Port(LEFT), COLUMN_X["A"] - 22),
    ("cli/front", "launcher"): Route(Port(LEFT, 18), Port(LEFT), COLUMN_X["A"] - 11),
    ("cli/front", "doctor/rules"): Route(Port(RIGHT, 16), Port(TOP_SIDE)),
    ("cli/front", "sim"): Route(Port(RIGHT, 28), Port(LEFT), COLUMN_X["B"] - 31),
    ("cli/front", "checkpoint"): Route(Port(BOTTOM, 40), Port(TOP_SIDE, -45), gap_below(6, -9)),
    ("cli/front", "monitor/live"): DOWN,
    ("cli/worker", "cli/front"): Route(Port(LEFT, -16), Port(RIGHT, -16)),
    ("cli/worker", "examples/gpt"): Route(Port(RIGHT, -16), Port(LEFT, -16)),
    ("cli/worker", "data"): Route(Port(LEFT, 16), Port(LEFT, 12), COLUMN_X["C"] - 32),
    ("cli/worker", "checkpoint"): Route(Port(RIGHT, 16), Port(LEFT), COLUMN_X["E"] - 24),
    ("cli/worker", "engine"): DOWN,
    ("cli/worker", "doctor/probes"): Route(Port(BOTTOM, 140), Port(TOP_SIDE), gap_below(7)),
    ("doctor/rules", "sim"): DOWN,
    ("doctor/rules", "monitor"): Route(Port(LEFT), Port(RIGHT), COLUMN_X["B"] - 20),
    ("doctor/probes", "doctor/rules"): Route(Port(LEFT), Port(RIGHT)),
    ("doctor/probes", "checkpoint"): Route(Port(BOTTOM, 20), Port(TOP_SIDE, 20)),
    ("doctor/probes", "offload"): Route(Port(BOTTOM, -50), Port(TOP_SIDE, 50), gap_below(5)),
    ("engine", "monitor/live"): Route(Port(LEFT), Port(RIGHT)),
    ("engine", "sim"): Route(Port(LEFT), Port(TOP_SIDE, 44)),
    ("engine", "launcher"): Route(Port(LEFT, -18), Port(RIGHT, -18), COLUMN_X["B"] - 36),
    ("engine", "data"): Route(Port(LEFT, 18), Port(LEFT, -12), COLUMN_X["C"] - 16),
    ("engine", "optim"): Route(Port(BOTTOM, -97), Port(TOP_SIDE)),
    ("engine", "offload"): Route(Port(BOTTOM, 97), Port(TOP_SIDE)),
    ("engine", "memory"): Route(Port(RIGHT, 14), Port(RIGHT, -14), COLUMN_X["E"] - 34),
    ("engine", "matmul"): Route(Port(LEFT, 26), Port(LEFT), COLUMN_X["C"] - 28),
    ("engine", "comm"): Route(Port(RIGHT, 26), Port(LEFT, -16), COLUMN_X["E"] - 18),
    ("engine", "checkpoint"): Route(Port(RIGHT), Port(TOP_SIDE, -15)),
    ("optim", "optim/core"): Route(Port(BOTTOM, -40), Port(BOTTOM), gap_below(4, -9)),
    ("optim", "memory"): Route(Port(BOTTOM), Port(TOP_SIDE, -50), gap_below(4)),
    ("offload", "memory"): DOWN,
    ("checkpoint", "memory"): Route(Port(BOTTOM, -50), Port(TOP_SIDE, 50), gap_below(4)),
    ("checkpoint", "comm"): DOWN,
    ("cli/worker", "comm"): Route(Port(RIGHT, 28), Port(LEFT), COLUMN_X["E"] - 12),
    ("comm", "comm/fabric"): Route(Port(BOTTOM), Port(BOTTOM), gap_below(3, -9)),
    ("comm", "monitor"): Route(Port(BOTTOM, 30), Port(BOTTOM), gap_below(2, -9)),
    ("sim", "plan"): Route(Port(LEFT), Port(LEFT), COLUMN_X["B"] - 9),
    ("memory", "plan"): Route(Port(BOTTOM), Port(TOP_SIDE, 50), gap_below(3)),
    ("launcher", "monitor"): DOWN,
    ("monitor/live", "monitor"): Route(Port(LEFT), Port(LEFT), COLUMN_X["A"] - 22),
}


# --- What is to be drawn ----------------------------------------------------------------------------------------------


class Graph(NamedTuple):
    standing: set[str]
    today: list[Edge]
    to_come: list[Edge]


def reachable(edges: set[Edge], start: str) -> set[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        here = pending.pop()
        for source, target in edges:
            if source == here and target not in found:
                found.add(target)
                pending.append(target)
    return found


def reduced(edges: set[Edge]) -> set[Edge]:
    """Without the arrows that follow from two others."""
    between = {(a, b): {m for s, m in edges if s == a and m != b} for a, b in edges}
    return {(a, b) for a, b in edges if not any(b in reachable(edges, m) for m in between[a, b])}


def stands(room: str) -> bool:
    folder = ROOT / (room if room.startswith("examples/") else f"weft/{room}")
    return any(folder.glob("*.cpp"))


def allowed_edges(table: check_layers.Table) -> set[Edge]:
    edges: set[Edge] = set()
    for row in table.rows.values():
        named = [room for room in table.rows if room != row.room] if "*" in row.includes else row.includes
        edges |= {(row.room, other) for other in named if other not in SLABS}
    edges.add(("cli/worker", "examples/gpt"))
    return {edge for edge in edges if edge[0] not in SLABS}


def edges_today(table: check_layers.Table) -> set[Edge]:
    files = check_layers.sources(ROOT)
    includes = [include for file in files for include in check_layers.includes_of(ROOT, file)]
    named = {(a, "examples/gpt" if b == "examples" else b) for a, b in check_layers.edges(table, includes)}
    # "weft" is the public surface, a list of headers and no room; an example that includes it is a user, and uses all.
    return {(a, b) for a, b in named if a not in ("weft", "examples") and b != "weft" and b not in SLABS and a not in SLABS}


def read_graph() -> Graph:
    table = check_layers.read_table(ROOT / "tools/layers.txt")
    rooms = set(table.rows) | {"examples/gpt"}
    if rooms != set(PLACES):
        raise SystemExit(f"PLACES and tools/layers.txt differ: {', '.join(sorted(rooms ^ set(PLACES)))}")
    for row in table.rows.values():
        if row.room not in SLABS and row.torch != (COLUMN_X[PLACES[row.room].first] > TORCH_LINE_X):
            raise SystemExit(f"{row.room} is drawn on the wrong side of the torch line: change its columns in PLACES")
    standing = {room for room in rooms if stands(room)}
    # Between two rooms that stand, only what is really included counts; a row may allow more.
    to_come = {(a, b) for a, b in reduced(allowed_edges(table)) if not {a, b} <= standing}
    graph = Graph(standing, sorted(reduced(edges_today(table))), sorted(to_come))
    drawn = set(graph.today) | set(graph.to_come)
    if drawn != drawn & set(ROUTES):
        missing = ", ".join(f"{a} -> {b}" for a, b in sorted(drawn - set(ROUTES)))
        raise SystemExit(f"no way is laid for {missing}: add it to ROUTES")
    return graph


# --- Drawing ----------------------------------------------------------------------------------------------------------

INK, MUTED, FAINT, CARD_BORDER = "#1f2328", "#57606a", "#9aa3ad", "#d0d7de"
COOL = {"fill": "#ddebfa", "stroke": "#2f6fb5", "ground": "#f5f9fe"}
WARM = {"fill": "#fce8d2", "stroke": "#b8651b", "ground": "#fefaf5"}
GREEN = {"fill": "#e2f3e5", "stroke": "#3d7f4a"}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDTH, HEIGHT = 1242, 1130
TITLE = "The rooms of weft"
ABOUT = (
    "Rooms as boxes in eight layers. A vertical torch line has the torch-free rooms on its left and those that may use "
    "libtorch on its right. Rooms that stand are filled, rooms to come are dashed. Solid arrows are includes of today, "
    "dashed ones are to come."
)


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int

    def port(self, port: Port) -> tuple[int, int]:
        middle_x, middle_y = self.x + self.width // 2, self.y + self.height // 2
        if port.side in (LEFT, RIGHT):
            return (self.x if port.side == LEFT else self.x + self.width), middle_y + port.at
        return middle_x + port.at, (self.y if port.side == TOP_SIDE else self.y + self.height)


def slab(y: int, height: int) -> Box:
    return Box(LEFT_EDGE - 44, y, RIGHT_EDGE - LEFT_EDGE + 88, height)


SLAB_BOXES = {"config": slab(836, 50), "base": slab(904, 62)}
SUPPORT_BOX = slab(998, 50)


def box_of(room: str) -> Box:
    if room in SLABS:
        return SLAB_BOXES[room]
    place = PLACES[room]
    x = COLUMN_X[place.first]
    return Box(x, TOP + (7 - place.layer) * ROW_STEP, COLUMN_X[place.last] + BOX_WIDTH - x, BOX_HEIGHT)


def points_of(edge: Edge) -> list[tuple[int, int]]:
    route = ROUTES[edge]
    (x1, y1), (x2, y2) = box_of(edge[0]).port(route.start), box_of(edge[1]).port(route.end)
    sideways, ends_sideways = route.start.side in (LEFT, RIGHT), route.end.side in (LEFT, RIGHT)
    if sideways and ends_sideways:
        between = [] if route.via is None else [(route.via, y1), (route.via, y2)]
    elif sideways:
        between = [(x2, y1)]
    else:
        between = [] if route.via is None else [(x1, route.via), (x2, route.via)]
    points = [(x1, y1), *between, (x2, y2)]
    if any(a[0] != b[0] and a[1] != b[1] for a, b in zip(points, points[1:])):
        raise SystemExit(f"the arrow {edge[0]} -> {edge[1]} is not made of level and upright lines: {points}")
    return points


def towards(start: tuple[int, int], end: tuple[int, int], length: int) -> tuple[int, int]:
    """The point `length` pixels from start on the level or upright way to end."""
    sign = lambda difference: (difference > 0) - (difference < 0)  # noqa: E731
    return start[0] + length * sign(end[0] - start[0]), start[1] + length * sign(end[1] - start[1])


def path_data(points: list[tuple[int, int]]) -> str:
    radius, clearance = 9, 3
    points = [*points[:-1], towards(points[-1], points[-2], clearance)]
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for before, corner, after in zip(points, points[1:], points[2:]):
        entry, leave = towards(corner, before, radius), towards(corner, after, radius)
        parts.append(f"L{entry[0]} {entry[1]}Q{corner[0]} {corner[1]} {leave[0]} {leave[1]}")
    parts.append(f"L{points[-1][0]} {points[-1][1]}")
    return "".join(parts)


def text(x: int, y: int, words: str, size: int, colour: str = INK, weight: int = 400, anchor: str = "middle") -> str:
    look = f'font-size="{size}" fill="{colour}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" {look}>{escape(words)}</text>'


def rectangle(box: Box, fill: str, stroke: str, dashed: bool, radius: int = 10) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="{radius}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.6"{dash}/>'
    )


def palette(room: str) -> dict[str, str]:
    if room == "examples/gpt":
        return GREEN
    return COOL if room in SLABS or box_of(room).x < TORCH_LINE_X else WARM


def draw_room(room: str, standing: bool) -> list[str]:
    box, colours = box_of(room), palette(room)
    fill, stroke = (colours["fill"], colours["stroke"]) if standing else ("#ffffff", FAINT)
    out = [rectangle(box, fill, stroke, not standing)]
    ink, soft = (INK, "#3b434b") if standing else ("#6a737d", "#6a737d")
    x, about = box.x + box.width // 2, PLACES[room].about
    if room in SLABS:
        y = box.y + box.height // 2 + 6
        out.append(text(box.x + 20, y, room, 18, ink, 650, "start"))
        return [*out, text(box.x + 104, y, about[0], 15, soft, anchor="start")]
    first = box.y + box.height // 2 + 7 - 9 * len(about)
    out.append(text(x, first, room, 18, ink, 650))
    return out + [text(x, first + 19 + 17 * i, line, 14, soft) for i, line in enumerate(about)]


def arrow(data: str, today: bool) -> str:
    colour, width, dash, head = (INK, "1.9", "", "now") if today else (FAINT, "1.5", ' stroke-dasharray="5 4"', "later")
    look = f'fill="none" stroke="{colour}" stroke-width="{width}"{dash} marker-end="url(#{head})"'
    return f'<path d="{data}" {look}/>'


def marker(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="10" markerHeight="10" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.8L10 5L0 9.2Z" fill="{colour}"/></marker>'
    )


def draw_grounds() -> list[str]:
    top, bottom = TOP - 52, TOP + 5 * ROW_STEP + BOX_HEIGHT + 22
    left, right = LEFT_EDGE - 44, RIGHT_EDGE + 44
    x, height = TORCH_LINE_X, bottom - top
    return [
        f'<rect x="{left}" y="{top}" width="{x - left}" height="{height}" fill="{COOL["ground"]}"/>',
        f'<rect x="{x}" y="{top}" width="{right - x}" height="{height}" fill="{WARM["ground"]}"/>',
        f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#c2410c" stroke-width="2.5"/>',
        text(TORCH_LINE_X - 14, top + 27, "torch-free: starts in milliseconds", 15, COOL["stroke"], 600, "end"),
        text(TORCH_LINE_X + 14, top + 27, "may use libtorch", 15, WARM["stroke"], 600, "start"),
        text(TORCH_LINE_X, top - 9, "the torch line", 15, "#c2410c", 650),
    ]


def draw_layer_numbers() -> list[str]:
    x = LEFT_EDGE - 64
    out = [text(x, TOP - 26, "layer", 13, MUTED)]
    for layer in range(8):
        box = SLAB_BOXES[SLABS[layer]] if layer < 2 else Box(0, TOP + (7 - layer) * ROW_STEP, 0, BOX_HEIGHT)
        out.append(text(x, box.y + box.height // 2 + 6, str(layer), 17, MUTED, 600))
    return out


def draw_legend() -> list[str]:
    x, y, step = COLUMN_X["D"], TOP + 5 * ROW_STEP - 8, 23
    swatch = lambda row: Box(x, y + row * step, 34, 16)  # noqa: E731
    line = lambda row, today: arrow(f"M{x} {y + row * step + 8}L{x + 34} {y + row * step + 8}", today)  # noqa: E731
    said = ("a room that stands", "a room to come", "includes, today", "will include, once both stand")
    return [
        rectangle(swatch(0), WARM["fill"], WARM["stroke"], False, 5),
        rectangle(swatch(1), "#ffffff", FAINT, True, 5),
        line(2, True),
        line(3, False),
        *(text(x + 46, y + row * step + 13, words, 14, MUTED if row % 2 else INK, anchor="start") for row, words in enumerate(said)),
    ]


def draw_support() -> list[str]:
    box = SUPPORT_BOX
    y = box.y + box.height // 2 + 6
    about = "for tests only: main(), watchdog, stacks, ranks as threads and as processes; includes nothing of weft"
    return [
        rectangle(box, GREEN["fill"], GREEN["stroke"], False),
        text(box.x + 20, y, "tests/support", 18, INK, 650, "start"),
        text(box.x + 176, y, about, 15, "#3b434b", anchor="start"),
    ]


def draw_foot() -> list[str]:
    x = LEFT_EDGE - 44
    notes = (
        "Every room may include base and config; those arrows, and arrows that follow from two others, are left out.",
        "The table behind the picture is tools/layers.txt; tools/check_layers.py holds every #include against it.",
    )
    return [text(x, SUPPORT_BOX.y + 86 + 22 * i, note, 14, MUTED, anchor="start") for i, note in enumerate(notes)]


def render(graph: Graph) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    card = Box(1, 1, WIDTH - 2, HEIGHT - 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title about" '
        f'font-family="{FONT}">',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="about">{ABOUT}</desc>',
        f"<defs>{marker('now', INK)}{marker('later', FAINT)}</defs>",
        rectangle(card, "#ffffff", CARD_BORDER, dashed=False, radius=18),
        text(LEFT_EDGE - 44, 48, TITLE, 24, INK, 700, "start"),
        *draw_grounds(),
        *draw_layer_numbers(),
        *(arrow(path_data(points_of(edge)), today=False) for edge in graph.to_come),
        *(arrow(path_data(points_of(edge)), today=True) for edge in graph.today),
        *(line for room in PLACES for line in draw_room(room, room in graph.standing)),
        *draw_support(),
        *draw_legend(),
        *draw_foot(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="draw docs/images/architecture.svg")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the picture is out of date")
    check = parser.parse_args().check
    picture = render(read_graph())
    if not check:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print("docs/images/architecture.svg is out of date: run docs/images/make_architecture_svg.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
