"""The items of tests/nightly.toml."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

TABLE = "tests/nightly.toml"


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    covers: tuple[str, ...]
    minutes: float
    why: str
    builds: tuple[str, ...]
    command: str

    def covers_path(self, path: str) -> bool:
        return any(path == part or path.startswith(part.rstrip("/") + "/") for part in self.covers)


class BadTable(Exception):
    """The table has an item that is none, or a name is not in it."""


def item_of(row: dict) -> Item:
    try:
        return Item(row["name"], tuple(row["covers"]), float(row["minutes"]), row["why"], tuple(row["builds"]), row["command"].strip())
    except (KeyError, TypeError, ValueError) as problem:
        raise BadTable(f"{TABLE}: item {row.get('name', '?')}: {problem!r} is missing or malformed") from None


def load_items(root: Path) -> list[Item]:
    rows = tomllib.loads((root / TABLE).read_text(encoding="utf-8")).get("item", [])
    items = [item_of(row) for row in rows]
    names = [item.name for item in items]
    if len(set(names)) != len(names):
        raise BadTable(f"{TABLE}: two items have one name")
    return items


def chosen(items: list[Item], names: list[str]) -> list[Item]:
    known = {item.name: item for item in items}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadTable(f"{TABLE} has no {', '.join(unknown)}\n  known: {' '.join(known)}")
    return [known[name] for name in names] if names else items
