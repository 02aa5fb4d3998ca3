"""What somebody sees of many entities: begun from the grants where they are few, along the entities where they are many.

INVARIANT: either way shows exactly what `grants.evaluation.entity_filters` shows; the ways differ in what they cost.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet

from entities.models import Entity
from entities.selectors import children_of, subtree_of
from entities.vocabulary import CONTAINER_KINDS
from grants.evaluation.count_cache import cached_count
from grants.evaluation.effective_grants import GrantTable, grant_tables, grant_tables_of_principal
from grants.evaluation.entity_filters import (
    ALL,
    NONE,
    VISIBILITY_OPERATIONS,
    KindsByRequirements,
    condition_for_tables,
    kinds_by_requirements,
)
from grants.models import User
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Generation

# to look at so many entities one by one takes milliseconds; of a million, who holds more meets the first page soon
FEW_GRANTS = 5_000
# of a namespace fewer: beside the grants in it, gathered once, a walk through all that lies in it costs less than more of these
FEW_GRANTS_INSIDE = 1_000
# where more of them are shown, a page of them is met before all are gathered
MANY_ROWS = 1_000
# so many are worth an index to PostgreSQL
WORTH_AN_INDEX = 1_000


@dataclass(frozen=True)
class Visibility:
    """Conditions on entities, with the same answer. all_rows: finds all of them soonest; first_rows: the first few. inside: what
    contains every row that is asked about and is none of them. apart: conditions that no row meets two of, and that together
    have the same answer; soonest to count. name: tells its counts from any others, where they are worth keeping."""

    all_rows: Q
    first_rows: Q
    inside: Entity | None = None
    is_few: bool = True
    apart: tuple[Q, ...] = ()
    name: str = ""

    def soonest(self, total: int) -> Q:
        """What finds the first rows soonest where `total` of those asked about are shown: few may be far from the first."""
        return self.first_rows if total > MANY_ROWS else self.all_rows

    @cached_property
    def counts(self) -> Counter[tuple[str, str]]:
        """How many there are inside, by kind and state: at every depth, but of the instance only directly. At most two queries,
        once."""
        return cached_count(self.name, self._counted) if self.name else self._counted()

    def _counted(self) -> Counter[tuple[str, str]]:
        whole = children_of(self.inside) if self.inside.kind == "instance" else subtree_of(self.inside)
        rows = whole.exclude(kind=self.inside.kind).order_by()
        counted = [rows.filter(part).values_list("kind", "state").annotate(total=Count("*"))
                   for part in self.apart or (self.all_rows,)]
        found: Counter[tuple[str, str]] = Counter()
        for kind, state, total in _union(counted):
            found[kind, state] += total
        return found


# what an account sees that sees all
FULL_VISIBILITY = Visibility(ALL, ALL)


def visibility_of(principal: User | Group, generation: Generation, *, inside: Entity | None = None,
            operations: Sequence[str] = VISIBILITY_OPERATIONS) -> Visibility:
    """What one of the operations shows. inside: as in `Seen`. At most four queries."""
    # by the numbers of a user's groups: its memberships would be looked up again with every row
    tables = grant_tables("user", principal.username) if isinstance(principal, User) else grant_tables_of_principal(principal)
    rules = kinds_by_requirements(generation, operations)
    if tables is None:
        return Visibility(NONE, NONE, inside)
    first = condition_for_tables(tables, rules, row_by_row=True)
    around = {} if inside is None or inside.namespace_id is None else {"namespace_id": inside.namespace_id}
    if all(_is_reached_by_grants(part) for requirements in rules for part in requirements) and _hold_few(tables, around):
        few = Q(pk__in=_reached(tables, around)) & first
        return Visibility(few, few, inside)
    name = f"seen-{inside.pk}-{principal._meta.label}-{principal.pk}-{generation.name}-{'-'.join(operations)}" if inside else ""
    if not around:
        return Visibility(condition_for_tables(tables, rules, inside=inside), first, inside, is_few=False, name=name)
    # mostly it is all held through groups: then no row need be looked for among what the user holds alone
    holding = tuple(table for table in tables if _holds_any(table, around))
    apart = _apart(holding, rules, inside, around)
    return Visibility(condition_for_tables(tables, rules, inside=inside), first, inside, is_few=False, apart=apart, name=name)


def is_same_visibility(generation: Generation, one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether these operations show the same in that generation, whoever asks."""
    return kinds_by_requirements(generation, one) == kinds_by_requirements(generation, other)


def _is_reached_by_grants(expression: Expression) -> bool:
    """Whether there is a grant on or in all that it permits; where not, one grant may show a whole namespace."""
    match expression:
        case Has(_, scope):
            return scope == Scope.SELF
        case HasAtOrBelow():
            return True
        case AllOf(parts):
            return any(map(_is_reached_by_grants, parts))
        case AnyOf(parts):
            return all(map(_is_reached_by_grants, parts))
        case HasOnAllLive() | Given() | Always():
            return False
        case _:
            raise UnknownExpression(expression)


def _hold_few(tables: tuple[GrantTable, ...], around: dict) -> bool:
    few = FEW_GRANTS_INSIDE if around else FEW_GRANTS
    grants = _union([_in_index(table.rows(**around)) for table in tables])
    return grants[: few + 1].count() <= few


def _holds_any(table: GrantTable, around: dict) -> bool:
    # asked for one grant, PostgreSQL would walk through the table itself where it expects many: they may all stand at its end
    return _in_index(table.rows(**around))[:WORTH_AN_INDEX].count() > 0


def _in_index(grants: QuerySet) -> QuerySet:
    """With nothing but what the indexes of the grants hold, so that the grants themselves need not be read."""
    return grants.order_by().values_list("content_object_id")


def _apart(tables: tuple[GrantTable, ...], rules: KindsByRequirements, inside: Entity, around: dict) -> tuple[Q, ...]:
    """What is shown by a grant on or in itself by the tables of the grants: the database joins with each as a whole, and need not
    look into both for every row. What is shown otherwise is one more part."""
    at_or_below = [kind for enough, kinds in rules.items() if enough == {HasAtOrBelow()} for kind in kinds]
    columns = {"content_object": [kind for kind in at_or_below if kind not in CONTAINER_KINDS],
               "application": [kind for kind in at_or_below if kind == "application"]}
    joined = [kind for kinds in columns.values() for kind in kinds]
    others = {enough: [kind for kind in kinds if kind not in joined] for enough, kinds in rules.items()}
    parts = [condition_for_tables(tables, {enough: kinds for enough, kinds in others.items() if kinds}, inside=inside)]
    for column, kinds in columns.items():
        before = NONE
        for table in tables if kinds else ():
            held = Q(pk__in=table.rows(**around, **{f"{column}__isnull": False}).order_by().values(f"{column}_id"))
            parts.append(Q(kind__in=kinds) & held & ~before)
            before |= held
    return tuple(parts)


def _reached(tables: tuple[GrantTable, ...], around: dict) -> QuerySet:
    """The keys of the entities that the grants are on, and of what contains these."""
    keys = [table.rows(**around, **{f"{column}__isnull": False}).order_by().values_list(f"{column}_id")
            for table in tables for column in ("content_object", "namespace", "application")]
    if not around:
        # any grant reaches the instance
        keys.append(Entity.objects.filter(kind="instance").order_by().values_list("pk"))
    return _union(keys)


def _union(rows: list[QuerySet]) -> QuerySet:
    return rows[0].union(*rows[1:], all=True) if len(rows) > 1 else rows[0]
