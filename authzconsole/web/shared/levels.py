"""Summaries of permissions by access level: sentences and tables for pages."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from entities.vocabulary import KINDS, join_words, quantity
from grants.access import MAX_COUNTED
from grants.policies.levels import LEVELS, Level, LevelCount, level_of, operations_by_level
from grants.policies.policy import Generation

# The containers that a sentence names; more are counted.
MAX_NAMED = 3
# The namespaces in a table.
MAX_ROWS = 50


def level_sentences(counts: Iterable[LevelCount], *, is_own: bool = False) -> list[str]:
    """Return a sentence for each level, the strongest first, such as `Administers 3 applications in finance.`

    An entity counts for each level that has an operation which is permitted on it. is_own: address the reader, as in
    `You read 12 datasets in sales.`
    """
    return [
        f"{f'You {level.infinitive}' if is_own else level.capitalize()} {words}."
        for level, words in quantities_by_level(counts).items()
    ]


def quantities_by_level(counts: Iterable[LevelCount]) -> dict[Level, str]:
    """Return the entities of each level in words, such as `3 applications in finance`; the strongest level first."""
    by_level: dict[Level, list[LevelCount]] = defaultdict(list)
    for count in counts:
        by_level[count.level].append(count)
    return {level: _quantities(by_level[level]) for level in reversed(LEVELS) if level in by_level}


def _quantities(counts: Sequence[LevelCount]) -> str:
    totals = dict.fromkeys(KINDS, 0)
    for count in counts:
        totals[count.kind] += count.count
    words = join_words([capped_quantity(total, kind) for kind, total in totals.items() if total])
    namespaces = {count.namespace for count in counts if count.kind != "namespace"}
    if None in namespaces or not any(namespaces):
        return words
    names = sorted(name for name in namespaces if name)
    if len(names) > MAX_NAMED:
        return f"{words} in {len(names):,} namespaces"
    return f"{words} in {join_words(names)}"


def capped_quantity(count: int, kind: str) -> str:
    """Return a count with the noun of its kind, such as `12 datasets` or `more than 10,000 datasets`."""
    if count > MAX_COUNTED:
        return f"more than {MAX_COUNTED:,} {KINDS[kind].plural}"
    return quantity(count, KINDS[kind].title, KINDS[kind].plural)


def level_table(counts: Iterable[LevelCount]) -> dict:
    """Return the context of `shared/display/level_table.html`: the number of entities for each namespace and level.

    Namespaces with most entities come first; the one without a name has the entities outside of namespaces.
    """
    cells: dict[str, dict[Level, list[LevelCount]]] = defaultdict(lambda: defaultdict(list))
    for count in counts:
        if count.namespace is not None:
            cells[count.namespace][count.level].append(count)
    levels = [level for level in LEVELS if any(level in row for row in cells.values())]
    rows = [
        {
            "namespace": namespace,
            "cells": [
                {
                    "level": level,
                    "count": sum(count.count for count in row[level]),
                    "title": ", ".join(capped_quantity(count.count, count.kind) for count in row[level]),
                }
                for level in levels
            ],
        }
        for namespace, row in cells.items()
    ]
    rows.sort(key=lambda row: (-max(cell["count"] for cell in row["cells"]), row["namespace"]))
    return {"levels": levels, "rows": rows[:MAX_ROWS], "more": max(0, len(rows) - MAX_ROWS)}


def operations_in_groups(
    generation: Generation, kind: str, operations: Iterable[str] | None = None
) -> list[tuple[str, list[str]]]:
    """Return the operations of a kind, or these ones, as groups with a title: by access level, the weakest first, then
    those without a rule.
    """
    names = list(KINDS[kind].operations if operations is None else operations)
    by_level = operations_by_level(generation, kind, names)
    groups = [(level.capitalize(), by_level[level]) for level in reversed(by_level)]
    without = [name for name in names if level_of(generation, kind, name) is None]
    return [*groups, *([(f"No rule in {generation.name}", without)] if without else [])]
