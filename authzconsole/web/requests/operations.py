"""The choices of operations and access levels in the forms of requests."""

from collections import defaultdict
from collections.abc import Sequence

from authzconsole.web.shared.levels import operations_in_groups
from entities.vocabulary import KINDS, Privilege
from grants.active_generation import active_generation
from grants.policies.levels import LEVELS, Level, operations_by_level

# operations of a level that its choice names
MAX_NAMED = 6
CREATING = ("create", "deploy", "add")
LEVEL_LABELS = {
    Level.SEES: "See it",
    Level.READS: "Read",
    Level.RUNS: "Run",
    Level.WRITES: "Write",
    Level.ADMINISTERS: "Administer",
}


def requestable_operations(
    kind: str, *, with_privileges: bool = True
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the operations as groups of choices: those of the kind by access level, or of all kinds if it is empty; and the
    privileges.
    """
    groups: list[tuple[str, Sequence[str]]]
    if kind:
        groups = [*operations_in_groups(active_generation(), kind)]
    else:
        groups = [(each.title.capitalize(), each.operations) for each in KINDS.values() if each.operations]
    if with_privileges:
        groups.append(("Privilege on exactly this address", tuple(map(str, Privilege))))
    return [(title, [(name, name) for name in names]) for title, names in groups]


def requestable_levels(kind: str) -> list[tuple[str, str]]:
    """Return the access levels as choices, the weakest first: those of the kind with their operations, or all if it is empty."""
    if not kind:
        return [(level, LEVEL_LABELS[level]) for level in reversed(LEVELS)]
    return [
        (level, f"{LEVEL_LABELS[level]}: {_names_of(names)}")
        for level in reversed(LEVELS)
        if (names := _main_operations(kind, level))
    ]


def _names_of(operations: Sequence[str]) -> str:
    more = len(operations) - MAX_NAMED
    return ", ".join(operations[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def operation_of_level(kind: str, level: Level) -> str:
    """Return the operation that is requested for a level: what permits it permits all operations with the same rule. Empty if
    the kind has no operation of the level.
    """
    return next(iter(sorted(_main_operations(kind, level), key=lambda name: name != level.infinitive)), "")


def _main_operations(kind: str, level: Level) -> list[str]:
    """Return the operations with one rule of a level: with that of `read`, for example, or else the most common one. Without
    those that create the entity, which is requested only by itself.
    """
    generation, by_rule = active_generation(), defaultdict(list)
    for name in operations_by_level(generation, kind).get(level, ()):
        if name not in CREATING:
            by_rule[generation.policy(kind, name).requirement].append(name)

    def order(names: list[str]) -> tuple[bool, int]:
        return any(name.partition("-")[0] == level.infinitive for name in names), len(names)

    return max(by_rule.values(), key=order, default=[])
