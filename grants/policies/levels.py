"""The access levels: named sets of operations that belong together, to summarize permissions.

The rules of a generation define which operations a level has: the level of an operation is that of the
privileges that its requirement needs. So every operation with a rule has exactly one level, in each generation
and for each kind, also for kinds that a deployment defines.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import ADMIN, ANY, EXECUTE, KINDS, READ, WRITE, Privilege
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.policy import Generation


class Level(StrEnum):
    """The levels, from the strongest to the weakest. The value is the verb of a sentence about one user."""

    ADMINISTERS = "administers"
    WRITES = "writes"
    RUNS = "runs"
    READS = "reads"
    SEES = "sees"

    @property
    def infinitive(self) -> str:
        """The verb as in `You can read`."""
        return self.removesuffix("s")


LEVELS = tuple(Level)
LEVEL_OF_PRIVILEGE = {
    READ: Level.READS,
    EXECUTE: Level.RUNS,
    WRITE: Level.WRITES,
    ADMIN: Level.ADMINISTERS,
}


@frozen
class LevelCount:
    """The number of entities of a kind on which at least one operation of a level is permitted, or changes.

    namespace: which contains them; empty outside of namespaces, and None if there are too many to count them by
    namespace. address: the entity, if it is the only one and known. is_partial: only a part of the operations of the level
    is permitted on each, or changes.
    """

    level: Level
    kind: str
    namespace: str | None
    count: int
    address: Address | None = None
    is_partial: bool = False


def required_level(requirement: Expression) -> Level:
    """Return the level of the operations that need `requirement`."""
    return fold(requirement, RequiredLevel())


def level_of(generation: Generation, kind: str, operation: str) -> Level | None:
    """Return the level of an operation or a bare privilege; None if the generation has no rule for it."""
    policy = generation.policy(kind, operation)
    return None if policy is None or policy.requirement is None else required_level(policy.requirement)


def operations_by_level(
    generation: Generation, kind: str, operations: Iterable[str] | None = None
) -> dict[Level, list[str]]:
    """Return the operations that have a rule, in their order, by level; the strongest level first.

    operations: by default, all operations of the kind.
    """
    grouped: dict[Level, list[str]] = {level: [] for level in LEVELS}
    for operation in KINDS[kind].operations if operations is None else operations:
        level = level_of(generation, kind, operation)
        if level is not None:
            grouped[level].append(operation)
    return {level: names for level, names in grouped.items() if names}


def level_of_grant(generation: Generation, kind: str, privilege: Privilege) -> Level:
    """Return the strongest level that a privilege can give on an entity of a kind.

    A privilege that no operation of the kind needs only shows the entity.
    """
    level = LEVEL_OF_PRIVILEGE[privilege]
    return level if level in operations_by_level(generation, kind) else Level.SEES


class RequiredLevel(Algebra[Level]):
    """The weakest level with which a requirement can be met, in a question without parameters.

    An operation that any privilege permits only shows the entity, and so does one that needs no grant.
    """

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Level:
        if set(privileges) == set(ANY):
            return Level.SEES
        return self.any_of(LEVEL_OF_PRIVILEGE[privilege] for privilege in privileges)

    def has_at_or_below(self) -> Level:
        return Level.SEES

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Level:
        return LEVEL_OF_PRIVILEGE[privilege]

    def always(self) -> Level:
        return Level.SEES

    def all_of(self, parts: Iterable[Level]) -> Level:
        return min(parts, key=LEVELS.index)

    def any_of(self, parts: Iterable[Level]) -> Level:
        return max(parts, key=LEVELS.index)

    def given(self, parameter: Parameter, then: Callable[[], Level]) -> Level:
        return Level.SEES
