"""List what a principal can do: the live entities with the operations that are permitted on them.

`all_permissions` yields everything. `AccessibleEntities` lists the entities page by page, and counts them. A page is
computed as for an AuthZEN search (`grants.evaluation.authzen_search`).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice

from django.db.models import Count, Q, QuerySet, Value

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import matching_entities
from entities.vocabulary import ANY, KINDS, Privilege
from grants.access.loading import permitted_operations
from grants.access.paths import Ways
from grants.access.requirements import (
    all_of_requirements,
    any_of_requirements,
    operations_by_requirement,
    selected_operations,
)
from grants.evaluation.authzen_search import FEW_GRANTS, KeySearch
from grants.evaluation.effective_grants import GrantTable, grant_tables, has_at_most
from grants.evaluation.entity_filters import VISIBILITY_OPERATIONS, EntityConditions, candidate_queries
from grants.evaluation.facts import gather_facts
from grants.policies.decide import is_permitted
from grants.policies.grammar import AllOf, AnyOf, Expression, Has, fold
from grants.policies.levels import Level, LevelCount, operations_by_level
from grants.policies.policy import Generation
from grants.policies.question import Question
from grants.querysets import union_all
from grants.validity import at_time

# Entities on which the operations are decided together.
ENTITIES_PER_BATCH = 500
# the requirement of a kind without a rule
NOTHING = AnyOf(())


def kinds_in_byte_order() -> list[str]:
    """Return all kinds in the order of the addresses of their entities, which is by code points."""
    return sorted(KINDS, key=lambda kind: f"{kind}:")


def all_permissions(
    subject_type: str, subject: str, generation: Generation, kinds: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (entity, operation) for everything that is permitted to a principal, sorted by code points.

    Only live entities and operations of their kind count. An unknown or inactive principal is permitted
    nothing. The entities are read in batches, so memory does not grow with their number.
    """
    tables = grant_tables(subject_type, subject)
    for kind in kinds_in_byte_order() if tables else ():
        if kinds is None or kind in kinds:
            yield from _permissions_on_kind(subject_type, subject, kind, generation, tables)


def _permissions_on_kind(
    subject_type: str, subject: str, kind: str, generation: Generation, tables: tuple[GrantTable, ...]
) -> Iterator[tuple[str, str]]:
    grouped = operations_by_requirement(generation, kind)
    combined = any_of_requirements(grouped, kind)
    if combined == NOTHING:
        return
    condition = fold(combined, EntityConditions(tables, [kind]))
    rows = (
        Entity.objects.filter(condition, kind=kind, state=State.LIVE)
        .order_by("key")
        .values_list("key", flat=True)
    )
    keys = iter(rows.iterator(chunk_size=ENTITIES_PER_BATCH))
    while batch := list(islice(keys, ENTITIES_PER_BATCH)):
        questions = [
            Question(subject_type, subject, same[0], Address(kind, key), generation.name)
            for key in batch
            for same in grouped.values()
        ]
        decisions = map(is_permitted, questions, gather_facts(questions))
        for key in batch:
            permitted = [operation for same in grouped.values() if next(decisions) for operation in same]
            for operation in sorted(permitted):
                yield f"{kind}:{key}", operation


# Counts above this limit are reported as the limit plus one.
MAX_COUNTED = 10_000
# Entities are counted with the page for a principal with at most this many effective grants, and after the page has
# appeared with at most MAX_GRANTS_TO_COUNT.
MAX_GRANTS_TO_COUNT_AT_ONCE = 100
MAX_GRANTS_TO_COUNT = 5_000
# With few grants, all entities that they lead to are read, up to this number.
MAX_KEYS_OF_FEW_GRANTS = 5_000
# Grants inside a container that are loaded for each holder; a page has up to 50 containers.
PATHS_PER_HOLDER = 10
ROWS_PER_PAGE = 200


@frozen
class EntityFilter:
    """Which entities to list; empty members do not filter.

    text: a part of the key in any case, or a kind with the start of a key. operation: the principal may
    perform it. level: the principal may perform an operation of this access level.
    privilege: the principal holds it on exactly the entity.
    """

    text: str = ""
    kind: str = ""
    namespace: str = ""
    privilege: str = ""
    operation: str = ""
    level: str = ""


_NO_FILTER = EntityFilter()


@frozen
class EntityAccess:
    """What a principal can do with one entity. ways: how, by operation, sorted by code points."""

    address: Address
    ways: dict[str, Ways]


@frozen
class EntityPage:
    """One page. has_more: whether more entities follow."""

    rows: list[EntityAccess]
    has_more: bool


@dataclass(frozen=True)
class AccessibleEntities:
    """The live entities on which a principal may perform at least one operation, after a filter.

    kinds: in this order. tables: the effective grants; None for an unknown or inactive principal, who can do
    nothing.
    visible_in: list only entities that the principal sees in this generation or has a grant on. Some
    operations are permitted on entities that it does not see, such as deleting all streams of a namespace
    without streams.
    needs_all: list only entities on which all operations of the filter are permitted.
    """

    subject_type: str
    subject: str
    generation: Generation
    where: EntityFilter
    kinds: Sequence[str]
    tables: tuple[GrantTable, ...] | None
    visible_in: Generation | None = None
    needs_all: bool = False

    @classmethod
    def of(
        cls,
        subject_type: str,
        subject: str,
        generation: Generation,
        where: EntityFilter = _NO_FILTER,
        kinds: Sequence[str] | None = None,
        *,
        visible_in: Generation | None = None,
    ) -> "AccessibleEntities":
        """Return the entities.

        Runs one query. kinds: the order of the kinds; by default the one of the vocabulary.
        """
        ordered = [kind for kind in (KINDS if kinds is None else kinds) if where.kind in ("", kind)]
        return cls(
            subject_type, subject, generation, where, ordered, grant_tables(subject_type, subject), visible_in
        )

    def page(self, after: Address | None, max_rows: int) -> EntityPage:
        """Return the entities after an address, or the first ones.

        Runs one to nine queries for each kind until the page is full, and those of `ways_of`.
        """
        addresses = []
        for address in self._addresses(after, max_rows + 1):
            addresses.append(address)
            if len(addresses) > max_rows:
                break
        page = addresses[:max_rows]
        return EntityPage(self.access_to(page), len(addresses) > max_rows)

    def all_rows(self, after: Address | None = None, max_rows: int = ROWS_PER_PAGE) -> Iterator[EntityAccess]:
        """Yield all entities after an address, read in pages of `max_rows`, so that memory does not grow with
        their number.
        """
        while True:
            page = self.page(after, max_rows)
            yield from page.rows
            if not page.has_more:
                return
            after = page.rows[-1].address

    def access_to(self, addresses: Sequence[Address]) -> list[EntityAccess]:
        """Return what the principal can do with each of these entities. Runs the queries of `ways_of`."""
        pairs = [(self.subject, address) for address in addresses]
        with at_time(self._at):
            permitted = permitted_operations(
                self.subject_type, pairs, self.generation, paths_per_holder=PATHS_PER_HOLDER
            )
        return [EntityAccess(address, ways) for address, ways in zip(addresses, permitted, strict=True)]

    @property
    def _at(self) -> datetime | None:
        """The time of the effective grants."""
        return self.tables[0].at if self.tables else None

    @cached_property
    def is_quickly_counted(self) -> bool:
        """Whether the principal has so few grants that counting takes less than a second.

        Runs at most one query.
        """
        return self.tables is None or has_at_most(MAX_GRANTS_TO_COUNT, self.tables)

    @cached_property
    def is_counted_at_once(self) -> bool:
        """Whether the principal has so few grants that counting takes milliseconds.

        Runs at most one query.
        """
        return self.tables is None or has_at_most(MAX_GRANTS_TO_COUNT_AT_ONCE, self.tables)

    def counts(self, max_counted: int | None = MAX_COUNTED) -> dict[str, int]:
        """Return the number of entities of each kind that has any, up to `max_counted` + 1.

        Runs one query for each kind.
        """
        counts = {}
        for kind in self.kinds if self.tables else ():
            if count := self._count(kind, max_counted):
                counts[kind] = count
        return counts

    def level_counts(self, counts: Mapping[str, int]) -> list[LevelCount]:
        """Return the number of entities for each level, kind and namespace; those on which only a part of the operations of the
        level is permitted are counted apart.

        counts: the result of `counts`; a kind with more than MAX_COUNTED entities is not divided by namespace.
        Runs one query for each kind, or up to two for each level of such a kind. The entities of such a kind and level are all
        counted as partial if one of them is.
        """
        return [count for kind, total in counts.items() for count in self._level_counts_of(kind, total)]

    def level_counts_of_rows(self, rows: Iterable[EntityAccess]) -> list[LevelCount]:
        """Return the numbers of `level_counts`, if these rows are all entities. Runs no query."""
        counts = Counter(
            (level, row.address.kind, row.address.namespace, not row.ways.keys() >= set(operations))
            for row in rows
            for level, operations in self._operations_by_level(row.address.kind).items()
            if any(operation in row.ways for operation in operations)
        )
        return [
            LevelCount(level, kind, namespace.key if namespace else "", count, is_partial=is_partial)
            for (level, kind, namespace, is_partial), count in counts.items()
        ]

    def _operations_by_level(self, kind: str) -> Mapping[Level, Collection[str]]:
        selected = selected_operations(self.generation, kind, self.where.operation, self.where.level)
        return operations_by_level(self.generation, kind, selected)

    def _level_counts_of(self, kind: str, total: int) -> Iterator[LevelCount]:
        by_level = {level: self._with_level(level) for level in self._operations_by_level(kind)}
        # by level, the entities on which all of its operations are permitted, where these can differ from the others
        complete = {
            level: in_full
            for level, entities in by_level.items()
            if (in_full := replace(entities, needs_all=True))._requirement(kind)
            != entities._requirement(kind)
        }
        if total > MAX_COUNTED:
            for level, entities in by_level.items():
                if count := entities._count(kind, MAX_COUNTED):
                    in_full = complete.get(level)
                    is_partial = in_full is not None and in_full._count(kind, MAX_COUNTED) < count
                    yield LevelCount(level, kind, None, count, is_partial=is_partial)
            return
        rows = union_all(
            [
                entities._listed_entities(kind)
                .annotate(level=Value(level), needs_all=Value(int(entities.needs_all)))
                .values("level", "needs_all", "namespace__key")
                .annotate(total=Count("pk"))
                .order_by()
                .values_list("level", "needs_all", "namespace__key", "total")
                for level, entities in (*by_level.items(), *complete.items())
                if entities._requirement(kind) != NOTHING
            ]
        )
        counts = {
            (Level(level), needs_all, namespace or ""): count for level, needs_all, namespace, count in rows
        }
        for (level, needs_all, namespace), count in counts.items():
            if not needs_all:
                in_full = counts.get((level, 1, namespace), 0) if level in complete else count
                if in_full:
                    yield LevelCount(level, kind, namespace, in_full)
                if count > in_full:
                    yield LevelCount(level, kind, namespace, count - in_full, is_partial=True)

    def _with_level(self, level: Level) -> "AccessibleEntities":
        return self if self.where.operation else replace(self, where=replace(self.where, level=level))

    def _count(self, kind: str, max_counted: int | None) -> int:
        requirement = self._requirement(kind)
        if requirement == NOTHING:
            return 0
        keys = self._few_keys(kind)
        if keys is not None:
            return len(keys)
        rows = self._listed_entities(kind)
        return rows.count() if max_counted is None else rows[: max_counted + 1].count()

    def _listed_entities(self, kind: str) -> QuerySet[Entity]:
        """Return the listed entities of a kind. Only for a kind with a requirement."""
        requirement = self._requirement(kind)
        conditions = EntityConditions(self.tables or (), [kind])
        queries = candidate_queries(requirement, conditions)
        is_listed = fold(requirement, conditions) if queries is None else Q(key__in=union_all(queries))
        return self._live_entities().filter(is_listed, kind=kind)

    def _addresses(self, after: Address | None, max_rows: int) -> Iterator[Address]:
        """Yield the addresses in order. Keys are read `max_rows` at a time."""
        if not self.tables:
            return
        start = self.kinds.index(after.kind) if after is not None and after.kind in self.kinds else 0
        for kind in self.kinds[start:]:
            last = after.key if after is not None and kind == after.kind else ""
            while keys := self._keys(kind, last, max_rows):
                yield from (Address(kind, key) for key in keys)
                if len(keys) < max_rows:
                    break
                last = keys[-1]

    def _keys(self, kind: str, after: str, max_rows: int) -> list[str]:
        if self._requirement(kind) == NOTHING:
            return []
        keys = self._few_keys(kind)
        if keys is not None:
            return keys[bisect_right(keys, after) :][:max_rows]
        if not self.is_quickly_counted and self._is_empty(kind):
            return []
        return self._search(kind).first_keys(after, max_rows)[0]

    def _search(self, kind: str) -> KeySearch:
        return KeySearch(self._requirement(kind), self.tables or (), kind, self._live_entities())

    def _few_keys(self, kind: str) -> list[str] | None:
        """Return all keys of a kind, sorted, if there are few grants and these lead to few entities; otherwise
        None.

        Runs one query, and one for each KEYS_PER_QUERY keys, once.
        """
        if not self._has_few_grants:
            return None
        if kind not in self._known_keys:
            search = self._search(kind)
            keys = search.keys_from_grants(MAX_KEYS_OF_FEW_GRANTS)
            self._known_keys[kind] = None if keys is None else search.listed_keys(keys, len(keys))
        return self._known_keys[kind]

    @cached_property
    def _known_keys(self) -> dict[str, list[str] | None]:
        return {}

    @cached_property
    def _has_few_grants(self) -> bool:
        return has_at_most(FEW_GRANTS, self.tables or ())

    def _is_empty(self, kind: str) -> bool:
        """Return whether the principal can do nothing with any entity of this kind, in any state.

        A principal with very many grants may have none on this kind.
        """
        requirement = any_of_requirements(operations_by_requirement(self.generation, kind), kind)
        queries = candidate_queries(requirement, EntityConditions(self.tables or (), [kind], by_kind=True))
        return queries is not None and not any(rows[:1] for rows in queries)

    def _requirement(self, kind: str) -> Expression:
        """Return the requirement that an entity of this kind must meet to be listed; NOTHING if no operation
        has a rule.
        """
        operations = selected_operations(self.generation, kind, self.where.operation, self.where.level)
        requirements = operations_by_requirement(self.generation, kind, operations)
        if not requirements:
            return NOTHING
        combine = all_of_requirements if self.needs_all else any_of_requirements
        combined = combine(requirements, kind)
        parts = [combined]
        if self.where.privilege:
            parts.insert(0, Has((Privilege[self.where.privilege],)))
        if self.visible_in is not None:
            showing = operations_by_requirement(self.visible_in, kind, VISIBILITY_OPERATIONS)
            parts.append(any_of_requirements([*showing, Has(ANY)], kind))
        return AllOf(tuple(parts)) if len(parts) > 1 else combined

    def _live_entities(self) -> QuerySet[Entity]:
        """Return the live entities that match the filter, whatever the principal can do."""
        rows = Entity.objects.all() if not self.where.text else matching_entities(self.where.text).order_by()
        if self.where.namespace:
            name = self.where.namespace
            # the range of keys leads to an index; the id of the namespace makes the condition exact
            rows = rows.filter(key__gte=name, key__lt=f"{name}/", namespace_id=self._namespace_id)
        return rows.filter(state=State.LIVE)

    @cached_property
    def _namespace_id(self) -> int:
        """The primary key of the namespace of the filter; 0 if there is none. Runs one query."""
        namespace = (
            Entity.objects.filter(kind="namespace", key=self.where.namespace)
            .values_list("pk", flat=True)
            .first()
        )
        return namespace or 0
