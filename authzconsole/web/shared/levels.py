"""Summaries of permissions by access level: sentences and tables for pages."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from entities.vocabulary import KINDS, join_words, quantity
from grants.access import MAX_COUNTED
from grants.effects.effect import SIDE_EFFECTS, KnownEffect, RowFilter, Tally
from grants.policies.levels import LEVELS, Level, LevelCount, level_of, operations_by_level
from grants.policies.policy import Generation

# The containers that a sentence names; more are counted.
MAX_NAMED = 3
# The namespaces in a table.
MAX_ROWS = 50


def level_sentences(counts: Iterable[LevelCount], *, is_own: bool = False) -> list[str]:
    """Return a sentence for each level, the strongest first, such as `Administers 3 applications in finance.`

    An entity counts for each level that has an operation which is permitted on it, `in part` if others of the level are not.
    is_own: address the reader, as in `You read 12 datasets in sales.`
    """
    return [
        f"{f'You {level.infinitive}' if is_own else level.capitalize()} {words}."
        for level, words in quantities_by_level(counts).items()
    ]


def quantities_by_level(counts: Iterable[LevelCount]) -> dict[Level, str]:
    """Return the entities of each level in words, such as `3 applications in finance, and in part namespace:finance`; the
    strongest level first.
    """
    by_level: dict[Level, list[LevelCount]] = defaultdict(list)
    for count in counts:
        by_level[count.level].append(count)
    return {level: _with_partial(by_level[level]) for level in LEVELS if level in by_level}


def _with_partial(counts: Sequence[LevelCount]) -> str:
    in_full, in_part = (
        [count for count in counts if count.is_partial is is_partial] for is_partial in (False, True)
    )
    words = [_quantities(in_full)] if in_full else []
    return ", and ".join([*words, *([f"in part {_quantities(in_part)}"] if in_part else [])])


def _quantities(counts: Sequence[LevelCount]) -> str:
    """Return the entities in words, such as `2 applications in finance and namespace:sales`."""
    by_kind: dict[str, list[LevelCount]] = defaultdict(list)
    for count in counts:
        by_kind[count.kind].append(count)
    single = {kind: rows[0] for kind, rows in by_kind.items() if len(rows) == 1 and rows[0].address}
    several = {kind: rows for kind, rows in by_kind.items() if kind not in single}
    totals = {kind: sum(count.count for count in rows) for kind, rows in several.items()}
    words = [capped_quantity(totals[kind], kind) for kind in KINDS if kind in totals]
    names = {count.namespace for kind, rows in several.items() for count in rows if kind != "namespace"}
    if words and None not in names and any(names):
        named = sorted(name for name in names if name)
        where = join_words(named) if len(named) <= MAX_NAMED else f"{len(named):,} namespaces"
        words = [f"{join_words(words)} in {where}"]
    return join_words([*words, *(str(single[kind].address) for kind in KINDS if kind in single)])


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
    levels = [level for level in reversed(LEVELS) if any(level in row for row in cells.values())]
    rows = [
        {
            "namespace": namespace,
            "cells": [
                {
                    "level": level,
                    "count": sum(count.count for count in row[level]),
                    "partial": sum(count.count for count in row[level] if count.is_partial),
                    "title": ", ".join(
                        f"{capped_quantity(count.count, count.kind)}{' in part' if count.is_partial else ''}"
                        for count in row[level]
                    ),
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


# The people in a table of an effect.
MAX_PEOPLE = 10
# the fields of a `Tally` in each part of an effect
PARTS = {"Intended": ("gained_for", "lost_for"), "Side effects": ("gained_beyond", "lost_beyond")}


def effect_table(effect: KnownEffect) -> dict | None:
    """Return the context of `effects/_people.html`: what people gain and lose at each level, apart for the purpose of the
    changes, with what grants bring with them, and for side effects; None if nothing is known about levels.

    Each number counts entities. With more than one person, the first row of a part has the totals.
    """
    if not effect.levels:
        return None
    whole, effect = effect, effect.with_attached_intended
    has_attached = effect.tally.beyond < whole.tally.beyond
    levels = list(effect.levels)
    parts = []
    for title, (gained, lost) in PARTS.items():
        rows = [
            _effect_row(name, tallies, levels, gained, lost)
            for name, tallies in effect.figures.levels_by_person.items()
        ]
        rows = [row for row in rows if row["gained"] or row["lost"]][:MAX_PEOPLE]
        if not rows:
            continue
        total = _effect_row("", effect.levels, levels, gained, lost)
        most = max(max(row["gained"], row["lost"]) for row in rows)
        for row in rows:
            row["gained_width"], row["lost_width"] = 100 * row["gained"] // most, 100 * row["lost"] // most
            row["lost_x"] = 100 - row["lost_width"]
        if has_attached and title == "Intended":
            title = "Intended, with what comes with the grants"
        parts.append({"title": title, "rows": rows, "total": total if effect.people_count > 1 else None})
    return {"levels": levels, "parts": parts, "people_count": effect.people_count} if parts else None


def _effect_row(
    name: str, tallies: Mapping[Level, Tally], levels: Iterable[Level], gained: str, lost: str
) -> dict:
    cells = []
    for level in levels:
        tally = tallies.get(level, Tally())
        cells.append({"gained": getattr(tally, gained), "lost": getattr(tally, lost)})
    return {
        "user": name,
        "cells": cells,
        "gained": sum(cell["gained"] for cell in cells),
        "lost": sum(cell["lost"] for cell in cells),
    }


def effect_sentences(effect: KnownEffect) -> list[dict]:
    """Return for each of the people who lose most what they gain and lose in words, such as `administers 3 applications in
    finance`, and in numbers; empty if it is not known.
    """
    effect = effect.with_attached_intended
    tallies = dict(sorted(effect.people_with_levels, key=lambda row: -row[1].lost)[:MAX_PEOPLE])
    changes = effect.level_changes(list(tallies))
    return [
        {
            "user": name,
            "tally": tallies[name],
            "parts": [
                {"is_side_effect": title == "Side effects", "verb": verb, "phrases": phrases}
                for title, fields in PARTS.items()
                for verb, phrases in phrases_by_verb(*(getattr(of_user, field) for field in fields)).items()
                if phrases
            ],
        }
        for name, of_user in changes.items()
    ]


def side_effect_sentences(effect: KnownEffect) -> list[dict]:
    """Return what side effects give to the first people, like `effect_sentences`, at the time with most of them."""
    effect = max(effect.times or [effect], key=lambda one: one.with_attached_intended.tally.gained_beyond)
    given = effect.filtered_effect(RowFilter(change="gained", purpose=SIDE_EFFECTS))
    return effect_sentences(given)[:MAX_NAMED] if given else []


def phrases_by_verb(gained: Sequence[LevelCount], lost: Sequence[LevelCount]) -> dict[str, list[str]]:
    """Return phrases such as `administers 3 applications in finance` of what a person gains, loses, or both: other operations
    of one level on the same entities.
    """
    gains, losses = (
        [f"{level} {words}" for level, words in quantities_by_level(counts).items()]
        for counts in (gained, lost)
    )
    both = [phrase for phrase in gains if phrase in losses]
    return {
        "gains": [phrase for phrase in gains if phrase not in both],
        "loses": [phrase for phrase in losses if phrase not in both],
        "gains some operations and loses others": both,
    }
