#!/usr/bin/env python3
"""Makes from weft/config/settings.toml everything that repeats it: the C++ table, the typed structs, docs/settings.md.

    tools/gen_settings.py [--check] [--root DIR]

--check writes nothing and fails (exit 1) with the difference when a file is not what the table says. The made files are
in the repository, so that they can be read and a build needs no Python.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
import textwrap
import tomllib
from pathlib import Path

TABLE = "weft/config/settings.toml"
TYPES = {"bool": "bool", "int": "int64_t", "float": "double", "string": "std::string", "path": "std::string",
         "dtype": "Dtype", "strings": "std::vector<std::string>", "object": "Value", "list": "Value", "any": "Value", "null": "Value"}
SECTION_COLUMNS = {"path", "struct", "strict", "strict_since", "open", "null", "since", "standing", "why", "why_zh", "doc", "keys", "aliases", "drops_auto"}
COLUMNS = {"key", "type", "default", "null", "derived", "was", "range", "values", "fold", "cpp", "spellings", "aliases", "since",
           "removed", "renamed", "deprecated", "effect", "standing", "why", "why_zh", "stages", "needs", "dead", "checked", "secret", "doc"}
MADE_BY = "// Made by tools/gen_settings.py from settings.toml; change that.\n// clang-format off\n"


def load(root: Path) -> dict:
    table = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    for section in table["section"]:
        check_columns(section, SECTION_COLUMNS, section["path"])
        for row in section["keys"]:
            check_columns(row, COLUMNS, f"{section['path']}.{row.get('key')}")
            row["path"] = f"{section['path']}.{row['key']}".lstrip(".")
            row.setdefault("standing", section["standing"])
            row.setdefault("effect", "behaviour")
            if row["standing"] == section["standing"] and "why" not in row:
                row |= {column: section[column] for column in ("why", "why_zh") if column in section}
            check_reason(row)
    return table


def check_reason(row: dict) -> None:
    """What weft does not act on has a reason, and both languages have it."""
    if ("why" in row) != ("why_zh" in row) or (row["standing"] != "honoured" and "why" not in row):
        sys.exit(f"{TABLE}: {row['path']}: {row['standing']}, and no reason in both languages (why, why_zh)")


def check_columns(row: dict, known: set[str], where: str) -> None:
    unknown = set(row) - known
    if unknown or not row.get("doc"):
        sys.exit(f"{TABLE}: {where}: " + (f"unknown column {', '.join(sorted(unknown))}" if unknown else "no doc"))


# --- The C++ table ---------------------------------------------------------------------------------------------------------


def text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def version(value: str | None) -> str:
    return "{" + ", ".join(value.split(".")) + "}" if value else "{}"


def camel(word: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[_\W]+", word.lower()))


def cpp_range(value: str | None) -> str:
    if not value:
        return "{}"
    inf = "kInfinity"
    if match := re.fullmatch(r">(=?)(\S+)", value):
        return f"{{{match[2]}, {inf}, {'false' if match[1] else 'true'}, false, {text(value)}}}"
    if match := re.fullmatch(r"([\d.]+)(<?)\.\.(<?)([\d.]+)", value):
        low_open, high_open = ("true" if match[group] else "false" for group in (2, 3))
        return f"{{{match[1]}, {match[4]}, {low_open}, {high_open}, {text(value.replace('<..<', ' to ').replace('..', ' to '))}}}"
    sys.exit(f"{TABLE}: range {value!r} is not understood")


def flag(row: dict, column: str) -> str:
    return "true" if row.get(column) else "false"


def array(name: str, values: list[str]) -> str:
    return f"constexpr std::string_view {name}[] = {{{', '.join(text(value) for value in values)}}};"


def argument(name: str) -> str:
    required = name.endswith("!")
    key, _, default = name.rstrip("!").partition("=")
    return f"{{{text(key)}, {text(default)}, {'true' if required else 'false'}}}"


def cpp_table(table: dict) -> str:
    sections, section_arrays, arrays, rows = [], [], [], []
    for number, section in enumerate(table["section"]):
        names = "{}"
        if section.get("aliases"):
            names = f"kSection{camel(section['path'])}Aliases"
            section_arrays.append(array(names, section["aliases"]))
        sections.append(
            f"    {{{text(section['path'])}, {flag(section, 'strict')}, {version(section.get('strict_since'))}, {flag(section, 'open')}, "
            f"{flag(section, 'null')}, {flag(section, 'drops_auto')}, {names}, {version(section.get('since'))}, Standing::k{camel(section['standing'])}, "
            f"{text(section.get('why', ''))}, {text(section.get('why_zh', ''))}, {text(section['doc'])}}},")
        for row in section["keys"]:
            name = camel(row["path"])
            lists = []
            for column in ("values", "aliases"):
                if row.get(column):
                    arrays.append(array(f"k{name}{camel(column)}", row[column]))
                    lists.append(f"k{name}{camel(column)}")
                else:
                    lists.append("{}")
            old = "{}"
            if row.get("was"):
                old = f"k{name}Was"
                entries = ", ".join(f"{{{version(was['before'])}, {text(json.dumps(was['default']))}}}" for was in row["was"])
                arrays.append(f"constexpr OldDefault {old}[] = {{{entries}}};")
            stages = sum(1 << stage for stage in row.get("stages", []))
            rows.append(
                f"    {{{text(row['path'])}, {text(row['key'])}, &kSections[{number}], Type::k{camel(row['type'])}, "
                f"{text(json.dumps(row.get('default')))}, {flag(row, 'null')}, {flag(row, 'derived')}, {lists[0]}, {flag(row, 'fold')}, "
                f"{flag(row, 'spellings')}, {cpp_range(row.get('range'))}, {lists[1]}, {old}, {version(row.get('since'))}, "
                f"{version(row.get('removed'))}, {text(row.get('renamed', ''))}, {text(row.get('deprecated', ''))}, "
                f"Effect::k{camel(row['effect'])}, Standing::k{camel(row['standing'])}, {stages}, {text(row.get('needs', ''))}, "
                f"{flag(row, 'dead')}, {flag(row, 'secret')}, Checked::k{camel(row.get('checked', 'never'))}, {text(row.get('why', ''))}, {text(row.get('why_zh', ''))}, "
                f"{text(row['doc'])}}},")
    argument_rows = []
    for number, arguments in enumerate(table["arguments"]):
        names = f"kArguments{number}"
        entries = ", ".join(argument(name) for name in arguments["names"])
        arrays += [f"constexpr Argument {names}[] = {{{entries}}};", array(f"{names}Types", arguments["types"])]
        argument_rows.append(f"    {{{text(arguments['of'])}, {names}Types, {names}}},")
    strays = [f"    {{{', '.join(text(stray.get(column, '')) for column in ('key', 'in', 'to', 'value', 'en', 'zh'))}}},"
              for stray in table["stray"]]
    return "\n".join([
        MADE_BY + '#include "weft/config/setting.h"\n', "namespace weft::config {", "namespace {\n",
        "constexpr double kInfinity = std::numeric_limits<double>::infinity();\n",
        *section_arrays, "", "constexpr Section kSections[] = {", *sections, "};\n", *arrays, "",
        "constexpr Setting kSettings[] = {", *rows, "};\n", "constexpr StrayKey kStrayKeys[] = {", *strays, "};\n",
        "constexpr ArgumentSet kArgumentSets[] = {", *argument_rows, "};\n", "}  // namespace\n",
        "std::span<const Section> sections() { return kSections; }",
        "std::span<const Setting> settings() { return kSettings; }",
        "std::span<const StrayKey> stray_keys() { return kStrayKeys; }",
        "std::span<const ArgumentSet> argument_sets() { return kArgumentSets; }\n", "}  // namespace weft::config", ""])


# --- The typed structs -----------------------------------------------------------------------------------------------------


def in_struct(row: dict) -> bool:
    return row["standing"] in ("planned", "honoured") and "removed" not in row and "deprecated" not in row


def field_type(row: dict) -> str:
    kind = row.get("cpp") if row["type"] == "enum" else TYPES[row["type"]]
    optional = "default" not in row and not row.get("derived") or row.get("null") and not row.get("derived")
    return f"std::optional<{kind}>" if optional else kind


def enum_name(value: str) -> str:
    return "k" + camel(value)


def initial(row: dict) -> str:
    if "default" not in row:
        return " = {}" if field_type(row).startswith("std::") else {"bool": " = false"}.get(row["type"], " = 0")
    default = row["default"]
    if row["type"] == "enum":
        return f" = {row['cpp']}::{enum_name(default)}"
    if row["type"] in ("strings", "list", "object", "any", "null"):
        return " = {}"
    return f" = {json.dumps(default)}" if default != "" else ""


def enums(table: dict) -> dict[str, list[str]]:
    found = {"Dtype": ["fp16", "bf16", "fp32"]}
    for section in table["section"]:
        for row in section["keys"]:
            if row["type"] == "enum" and "cpp" in row:
                if found.setdefault(row["cpp"], row["values"]) != row["values"]:
                    sys.exit(f"{TABLE}: {row['path']}: {row['cpp']} has other values elsewhere")
    return found


def children(table: dict, parent: dict) -> list[dict]:
    depth = parent["path"].count(".") + 1 if parent["path"] else 0
    return [section for section in table["section"] if section.get("struct") and section["path"] and section is not parent
            and section["path"].count(".") == depth and section["path"].startswith(parent["path"] + "." if parent["path"] else "")]


def struct_lines(table: dict, section: dict) -> list[str]:
    lines = [f"// {section['doc']}", f"struct {section['struct']} {{"]
    for row in filter(in_struct, section["keys"]):
        lines.append(f"  {field_type(row)} {row['key']}{initial(row)};  // {row['doc']}")
    for child in children(table, section):
        lines.append(f"  {child['struct']} {child['path'].split('.')[-1]};")
    return [*lines, "};", ""]


def structs(table: dict) -> list[dict]:
    return sorted((section for section in table["section"] if section.get("struct")),
                  key=lambda section: -(section["path"].count(".") + bool(section["path"])))


def resolved_header(table: dict) -> str:
    lines = [
        MADE_BY + "//", "// A config after everything is decided: plain structs with the names and the nesting of the file. Every other room reads",
        "// these and never the file. Made by resolve() (resolve.h), which also knows where each value came from. Sizes named bucket, threshold,",
        "// live, distance, sub_group count elements. Values: copy, any thread.", "#pragma once\n",
        "#include <cstdint>", "#include <optional>", "#include <span>", "#include <string>", "#include <string_view>", "#include <vector>\n",
        '#include "weft/config/value.h"\n', "namespace weft::config {\n"]
    for name, values in enums(table).items():
        lines += [f"enum class {name} {{ {', '.join(enum_name(value) for value in values)} }};", f"std::string_view to_text({name} value);\n"]
    for section in structs(table):
        lines += struct_lines(table, section)
    lines += ["// Fills the structs from one value a setting, in the order of settings(). Requires: each of its setting's type, or null.",
              "Resolved make_resolved(std::span<const Value> values);\n", "}  // namespace weft::config", ""]
    return "\n".join(lines)


def resolved_source(table: dict) -> str:
    lines = [MADE_BY + '#include "weft/config/resolved.h"\n', '#include "weft/base/check.h"', '#include "weft/config/resolved_impl.h"\n',
             "namespace weft::config {\n"]
    for name, values in enums(table).items():
        lines += [f"std::string_view to_text({name} value) {{",
                  f"  constexpr std::string_view kTexts[] = {{{', '.join(text(value) for value in values)}}};",
                  "  return kTexts[static_cast<size_t>(value)];", "}\n"]
    lines += ["Resolved make_resolved(std::span<const Value> values) {", "  Resolved r;"]
    number = 0
    for section in table["section"]:
        for row in section["keys"]:
            if section.get("struct") and in_struct(row):
                last = {"enum": f", {len(row.get('values', []))}", "dtype": ", 3"}.get(row["type"], "")
                lines.append(f"  take(values[{number}], r.{row['path']}{last});")
            number += 1
    lines += ["  return r;", "}\n", "}  // namespace weft::config", ""]
    return "\n".join(lines)


# --- The page --------------------------------------------------------------------------------------------------------------

STANDING_WORDS = {
    "planned": "read and checked; the part that uses it is being built. `weft check` and a run say so, where the value asks for it",
    "honoured": "read, checked and acted on",
    "ignored": "without effect, for the reason in the notes. `weft check` and a run say so, where the value is not the default",
    "refused": "an error unless it has its inactive value",
}


def shown_default(row: dict) -> str:
    if "default" not in row:
        return "derived" if row.get("derived") else "none"
    shown = json.dumps(row["default"])
    if isinstance(row["default"], int) and row["default"] > 10**18:
        return "no limit"
    was = "".join(f" (before {was['before']}: `{json.dumps(was['default'])}`)" for was in row.get("was", []))
    return (f"`{shown}`" if len(shown) < 40 else f"{len(row['default'])} entries") + was


def shown_type(row: dict) -> str:
    kind = {"enum": " / ".join(row.get("values", [])), "strings": "list of strings"}.get(row["type"], row["type"])
    if row["type"] == "dtype":
        kind = " / ".join(row["values"])
    return kind + (f" {row['range']}" if row.get("range") else "") + (", null" if row.get("null") else "")


def notes(row: dict, section: dict) -> str:
    found = []
    if row.get("aliases"):
        found.append("also `" + "`, `".join(row["aliases"]) + "`")
    if row.get("stages") and set(row["stages"]) != {1, 2, 3}:
        found.append("stage " + ", ".join(map(str, row["stages"])))
    if row.get("needs"):
        found.append(f"only with `{row['needs']}`")
    if row.get("dead"):
        found.append("no effect")
    if row.get("secret"):
        found.append("never shown")
    for column, word in (("since", "since"), ("removed", "removed in"), ("renamed", "now"), ("deprecated", "write instead")):
        if row.get(column):
            found.append(f"{word} `{row[column]}`" if column in ("renamed", "deprecated") else f"{word} {row[column]}")
    if row.get("why") and row["why"] != section.get("why"):
        found.append(f"here: {row['why'].replace('|', '/')}")
    return "; ".join(found)


def section_words(section: dict) -> str:
    words = section["doc"]
    if section.get("strict"):
        since = f" (since {section['strict_since']})" if section.get("strict_since") else ""
        words += f" DeepSpeed refuses keys it does not know here{since}."
    words += f" Since {section['since']}." if section.get("since") else ""
    return words + (f" Here: {section['why']}." if section.get("why") else "")


def page(table: dict) -> str:
    lines = ["# Settings", "", *textwrap.wrap(
        "Every key weft knows in a `ds_config.json`, with DeepSpeed 0.19.8's meaning and, where it was another, the older one. Bucket and "
        "threshold sizes count elements, not bytes. `weft check FILE` holds a file against this table; `weft check FILE --explain KEY` says "
        "what a key came out as and why; `weft schema` prints it for editors. Made from `weft/config/settings.toml` by "
        "`tools/gen_settings.py`.", 140), "", "What weft does with a key:", ""]
    lines += [f"- **{name}**: {words}" for name, words in STANDING_WORDS.items()]
    lines += ["", "The column *effect* says whether a setting changes the training's behaviour, only its performance, or only what is printed.", ""]
    for section in table["section"]:
        if not section["keys"]:
            continue
        lines += [f"## {section['path'] or 'Top level'}", "", *textwrap.wrap(section_words(section), 140), "",
                  "| key | type | default | weft | effect | meaning | notes |", "|---|---|---|---|---|---|---|"]
        lines += [f"| `{row['key']}` | {shown_type(row)} | {shown_default(row)} | {row['standing']} | {row['effect']} | "
                  f"{row['doc'].replace('|', '/')} | {notes(row, section)} |" for row in section["keys"]]
        lines.append("")
    lines += ["## Arguments of optimizers and schedules", "", "`optimizer.params` and `scheduler.params` are handed to a constructor, which "
              "refuses what it does not know.", ""]
    for arguments in table["arguments"]:
        names = ", ".join(f"`{name.rstrip('!').replace('=', ' = ')}`" + (" (required)" if name.endswith("!") else "") for name in arguments["names"])
        lines += textwrap.wrap(f"- **{', '.join(arguments['types'])}**: {names}", 150, subsequent_indent="  ")
    lines += ["", "## Keys that are nobody's", "", "Found in published configs; `weft check` says what was meant.", "",
              "| key | found in | belongs to | |", "|---|---|---|---|"]
    lines += [f"| `{stray['key']}` | {'anywhere' if stray['in'] == '*' else '`' + stray['in'] + '`'} | "
              f"{'`' + stray['to'] + '`' if stray['to'] else 'nowhere'} | {stray['en']} |" for stray in table["stray"]]
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    table = load(arguments.root)
    made = {"weft/config/settings_table.cpp": cpp_table(table), "weft/config/resolved.h": resolved_header(table),
            "weft/config/resolved.cpp": resolved_source(table), "docs/settings.md": page(table)}
    failed = False
    for name, content in made.items():
        path = arguments.root / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == content:
            continue
        if arguments.check:
            failed = True
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), content.splitlines(True), name, name + " (as settings.toml says)"))
            print(f"{name} is not what settings.toml says; do: tools/gen_settings.py")
        else:
            path.write_text(content, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
