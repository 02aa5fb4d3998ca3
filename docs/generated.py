"""The tables of the documentation that are generated from the code: commands, operations of the API, tables of the
analyses, and the rules beside the documents that they were made of.

A page has the comment `<!-- generated: NAME -->` where the table of that name belongs.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path

from django.core.management import get_commands, load_command_class

from analytics.analyses import ANALYSES
from analytics.tables import EXTRA_TABLES, SET_ENTITIES, SET_PRINCIPALS, SNAPSHOT_TABLES, Table
from authzconsole.rest.openapi import document
from entities.vocabulary import KINDS, Privilege
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Source
from grants.policies.wording import kinds_in_words, requirement_in_words

OWN_APPS = ("authzconsole", "grants", "entities", "analytics")
SEEDS = Path(__file__).with_name("seeds")


COMMENT = re.compile(r"<!-- generated: (\w+) -->")


def with_generated_tables(app, name: str, source: list[str]) -> None:
    """Replace the comments of a page by their tables. An event handler of Sphinx, for `source-read`."""
    source[0] = COMMENT.sub(lambda match: "\n".join(TABLES[match[1]]()), source[0])


def generated_pages(app, env, added, changed, removed) -> list[str]:
    """Return the pages with generated tables, which every build reads again. An event handler of Sphinx, for
    `env-get-outdated`.
    """
    return [name for name in env.found_docs if COMMENT.search(Path(env.doc2path(name)).read_text("utf-8"))]


def table(head: tuple[str, ...], rows) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def commands() -> Iterator[str]:
    """Yield a section for each command of the console: what it does, and its arguments."""
    for name, app in sorted(get_commands().items()):
        if not app.startswith(OWN_APPS):
            continue
        command = load_command_class(app, name)
        parser = command.create_parser("manage.py", name)
        actions = [action for action in parser._actions if not set(action.option_strings) & _common_options()]
        yield f"## {name}\n\n{_sentence(command.help)}\n"
        arguments = " ".join(_usage(action) for action in actions)
        yield f"```text\nmanage.py {name} {arguments}".rstrip() + "\n```\n"
        if actions:
            yield from table(
                ("argument", "meaning"),
                [
                    (f"`{_name(action)}`", (action.help or "") % {"default": action.default})
                    for action in actions
                ],
            )


@cache
def _common_options() -> frozenset[str]:
    """Return the options that every command of Django has."""
    parser = load_command_class("django.core", "check").create_parser("manage.py", "check")
    return frozenset(
        option
        for action in parser._actions
        for option in action.option_strings
        if action.dest in ("help", "version", "verbosity", "settings", "pythonpath", "traceback")
        or option in ("--no-color", "--force-color", "--skip-checks")
    )


def _name(action) -> str:
    value = action.metavar or (
        "|".join(map(str, action.choices)) if action.choices else action.dest.upper().replace("_", "-")
    )
    if not action.option_strings:
        return value
    return action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {value}"


def _usage(action) -> str:
    is_optional = not action.required if action.option_strings else action.nargs in ("?", "*")
    return f"[{_name(action)}]" if is_optional else _name(action)


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}." if text else ""


def operations() -> Iterator[str]:
    """Yield a table of operations for each tag of the OpenAPI document."""
    rows_by_tag = defaultdict(list)
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            scopes = operation["security"][0].get("token", []) if operation.get("security") else []
            rows_by_tag[operation["tags"][0]].append(
                (
                    f"`{method.upper()} {path}`",
                    operation["summary"],
                    ", ".join(f"`{scope}`" for scope in scopes),
                )
            )
    for tag, rows in sorted(rows_by_tag.items()):
        yield f"## {tag}\n"
        yield from table(("operation", "does", "token scope"), rows)


def analyses() -> Iterator[str]:
    """Yield a section for each analysis: its question, its options, and its tables with their columns."""
    for analysis in ANALYSES.values():
        yield f"## {analysis.name}\n\n{analysis.question} Options: {', '.join(analysis.options) or 'none'}.\n"
        for output in analysis.written_outputs:
            yield from columns(output.table, output.question)
        if analysis.has_sets:
            yield from columns(SET_PRINCIPALS, "Which users see which sets? Only with `--sets` of a job.")
            yield from columns(SET_ENTITIES, "Which entities are in each set? Only with `--sets` of a job.")


def snapshot_tables() -> Iterator[str]:
    """Yield the tables of a snapshot with their columns."""
    for stored in (*SNAPSHOT_TABLES, *EXTRA_TABLES):
        yield from columns(stored, "")


def columns(described: Table, title: str) -> Iterator[str]:
    """Yield the columns of a table with their types and meanings. Those of the key have a mark."""
    yield f"**`{described.name}`** {title}\n"
    yield from table(
        ("column", "type", "meaning"),
        [
            (
                f"`{column.name}`{' (key)' if column.name in described.key else ''}",
                f"{column.type.value}{' or null' if column.nullable else ''}",
                column.meaning,
            )
            for column in described.columns
        ],
    )


def rules() -> Iterator[str]:
    """Yield, for each generation and table of its documents, the text of each row beside the rules that were made of
    it.
    """
    for generation in GENERATIONS.values():
        yield f"## {generation.name}\n\n{generation.summary}\n"
        by_table = defaultdict(lambda: defaultdict(list))
        for policy in generation.policies.values():
            by_table[policy.source.seed, policy.source.table][policy.source.row].append(policy)
        for (seed, name), by_row in by_table.items():
            yield f"### {generation.name}: {name} ({seed})\n"
            yield from table(
                ("row of the document", "its text", "rule"),
                [
                    (
                        row,
                        row_text(policies[0].source),
                        "<br>".join(
                            f"`{policy.operation}` on {policy.kind}: {_requirement(policy.requirement)}"
                            for policy in policies
                        )
                        + _notes(policies),
                    )
                    for row, policies in by_row.items()
                ],
            )


def platform_permissions() -> Iterator[str]:
    """Yield, for each generation with platform permissions, what each requires, and what each privilege gives."""
    for generation in GENERATIONS.values():
        if not generation.platform_permissions:
            continue
        yield from table(
            ("permission", "on", "requires", "source"),
            [
                (
                    f"`{row.permission}`",
                    kinds_in_words(row, generation),
                    requirement_in_words(row.requirement),
                    f"{row.source.table}: {row_text(row.source)}{_notes([row])}",
                )
                for row in generation.platform_permissions
            ],
        )
        yield "The other direction: what a privilege on an entity gives.\n"
        yield from table(
            ("on", *(f"{privilege} gives" for privilege in Privilege)),
            [
                (kind, *(", ".join(generation.given_permissions(each, kind)) for each in Privilege))
                for kind in KINDS
            ],
        )


def _requirement(requirement) -> str:
    return requirement_in_words(requirement) if requirement else "no rule, denied"


def _notes(policies) -> str:
    notes = dict.fromkeys(policy.source.note for policy in policies if policy.source.note)
    return "".join(f"<br>*{note}*" for note in notes)


@cache
def _seed_rows(seed: str) -> tuple[tuple[str, ...], ...]:
    """Return the cells of each line of a seed document that is not empty."""
    text = (SEEDS / f"{seed}.txt").read_text(encoding="utf-8")
    # what a wrong encoding made of spaces
    lines = [" ".join(line.replace("\u00c2", " ").split()).strip("-• ") for line in text.splitlines()]
    return tuple(tuple(cell.strip() for cell in line.split("|")) for line in lines if line)


def row_text(source: Source) -> str:
    """Return the text of the document in the row that a rule cites; empty if the document has no such row."""
    rows = _seed_rows(source.seed)
    begin = next((number for number, cells in enumerate(rows) if cells[0] == source.table), 0)
    for cells, following in zip_longest(rows[begin:] + rows[:begin], rows[begin + 1 :] + rows[:begin]):
        if len(cells) > 1 and source.row in cells:
            return " | ".join(cell for cell in cells if cell and cell not in (source.row, source.table))
        if cells == (source.row,) and rows[begin] == (source.table,):
            return " ".join(following)
        if len(cells) == 1 and source.row in cells[0]:
            return cells[0]
    return ""


TABLES = {
    "commands": commands,
    "operations": operations,
    "analyses": analyses,
    "snapshot_tables": snapshot_tables,
    "rules": rules,
    "platform_permissions": platform_permissions,
}
