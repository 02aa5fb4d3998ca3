"""Summarize the missing grants for a rule over all live entities: list the first entities and count the
others.

A page can explain a decision on a namespace of any size with a fixed number of queries and bounded memory.
INVARIANT: the listed and counted entities are exactly the entities that `grants.evaluation.facts` lists.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entity_at, live_entities_inside
from entities.vocabulary import KIND_ORDER, Privilege
from grants.evaluation.count_cache import cached_count
from grants.evaluation.effective_grants import GrantTable, grant_tables
from grants.evaluation.entity_filters import ALL
from grants.evaluation.facts import DelegatedFacts, gather_facts
from grants.evaluation.visibility import Visibility
from grants.models import permission_ids
from grants.policies.decide import EntitiesWithoutPrivilege
from grants.policies.explain import Attempt
from grants.policies.question import Question
from grants.querysets import union_all

# The keys inside a container start with its key and a dot, and keys sort by bytes
# (entities.migrations.0002_byte_order).
_DOT, _AFTER_DOT = ".", "/"


@frozen
class SummaryFacts(DelegatedFacts):
    """The facts of one question (see `grants.policies.decide.Facts`), with at most `max_listed` entities
    without a privilege.
    """

    question: Question
    max_listed: int
    _cache: dict = field(default_factory=dict)

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        key = address, privilege, kind
        if key not in self._cache:
            self._cache[key] = _entities_without_privilege(
                self.question, address, privilege, kind, self.max_listed
            )
        return self._cache[key]


def summary_facts(question: Question, max_listed: int) -> SummaryFacts:
    """Gather the facts for an explanation. List only the first `max_listed` entities without a privilege.

    Runs one query; five for a rule over all live entities.
    """
    return summary_facts_of_generations([question], max_listed)[0]


def summary_facts_of_generations(questions: Sequence[Question], max_listed: int) -> list[SummaryFacts]:
    """Gather the facts for questions that differ only in their generation.

    The questions share the lookups of live entities.
    """
    facts_of_all, cache = gather_facts(questions, explained=True, with_live=False), {}
    return [
        SummaryFacts(facts, question, max_listed, cache)
        for question, facts in zip(questions, facts_of_all, strict=True)
    ]


def visible_entities_without_privilege(
    question: Question, attempt: Attempt, visibility: Visibility, max_listed: int
) -> EntitiesWithoutPrivilege | None:
    """Return the entities without the privilege that a reader may see; None if the reader may see all of
    them.

    attempt: an attempt over all live entities. visibility: what the reader sees inside the target. Lists the
    first `max_listed` entities. Runs at most six queries.
    """
    (privilege,) = attempt.privileges
    required = _RequiredPrivilege.find(question, attempt.address, privilege, attempt.kind)
    counts = Counter(
        {
            kind: total
            for (kind, state), total in visibility.counts.items()
            if state == State.LIVE and attempt.kind in (None, kind)
        }
    )
    if held_kinds := [kind for kind in _count_by_kind(required.held_entities) if kind in counts]:
        missing_counts = _count_by_kind(
            required.live.filter(visibility.all_rows, *required.lacks_privilege, kind__in=held_kinds)
        )
        counts = +Counter(counts | {kind: missing_counts[kind] for kind in held_kinds})
    if counts.total() == len(attempt.missing_grants) + attempt.unlisted_count:
        return None
    return _summary(
        required.first_without(counts, max_listed, visibility.first_rows), counts, checked_count=0
    )


def _entities_without_privilege(
    question: Question, address: Address, privilege: Privilege, kind: str | None, max_listed: int
) -> EntitiesWithoutPrivilege:
    required = _RequiredPrivilege.find(question, address, privilege, kind)
    if required is None:
        return EntitiesWithoutPrivilege(is_empty=True)
    live = cached_count(
        f"live-{required.entity.pk}-{kind or ''}", lambda: _count_by_kind(required.live), at=None
    )
    counts = live - _count_by_kind(required.held_entities)
    return _summary(required.first_without(counts, max_listed), counts, live.total())


@frozen
class _RequiredPrivilege:
    """A privilege that is required on all live entities inside a container.

    entity: the container. tables: the effective grants of the subject. live: the live entities inside the
    container.
    """

    entity: Entity
    privilege: Privilege
    tables: tuple[GrantTable, ...]
    live: QuerySet[Entity]

    @classmethod
    def find(
        cls, question: Question, address: Address, privilege: Privilege, kind: str | None
    ) -> "_RequiredPrivilege | None":
        """Look up the container and the subject; return None if there is no such container. A subject that is
        not known has no grants. Runs two queries.
        """
        entity = entity_at(address)
        if entity is None:
            return None
        tables = grant_tables(question.subject_type, question.subject) or ()
        return cls(entity, privilege, tables, live_entities_inside(entity, kind))

    @property
    def _grants(self) -> list[QuerySet]:
        """The grants of the privilege on and inside the container, one queryset for each table."""
        where = {self.entity.kind: self.entity.pk, "permission_id": permission_ids()[self.privilege]}
        return [table.rows(**where).order_by() for table in self.tables]

    @property
    def lacks_privilege(self) -> list[Exists]:
        """One condition for each table of grants; an entity that meets all of them lacks the privilege.

        The database executes each condition as a join, which it cannot do for one condition that combines
        them.
        """
        return [~Exists(grants.filter(content_object_id=OuterRef("pk"))) for grants in self._grants]

    @property
    def held_entities(self) -> QuerySet[Entity]:
        """The live entities on which the privilege is held.

        Starts from the grants, which are usually fewer than the entities.
        """
        ids = [grants.values_list("content_object_id") for grants in self._grants]
        if not ids:
            return self.live.none()
        return self.live.filter(pk__in=union_all(ids))

    def first_without(self, counts: Counter, max_listed: int, condition: Q = ALL) -> list[Address]:
        """Return the first entities that lack the privilege and meet `condition`, by address. Runs at most
        one query.

        counts: the number of these entities by kind.
        """
        # a condition on the range of keys uses an index, which has the rows in order
        start, end = f"{self.entity.key}{_DOT}", f"{self.entity.key}{_AFTER_DOT}"
        without_privilege = Entity.objects.filter(condition, *self.lacks_privilege, state=State.LIVE)
        parts, expected = [], 0
        for kind in sorted(counts, key=KIND_ORDER.__getitem__):
            if expected < max_listed:
                inside = without_privilege.filter(kind=kind, key__gt=start, key__lt=end)
                parts.append(inside.order_by("key")[:max_listed])
            expected += counts[kind]
        if not parts:
            return []
        rows = [
            Entity.objects.filter(pk__in=part.values("pk")).order_by().values_list("kind", "key")
            for part in parts
        ]
        addresses = [Address(*row) for row in union_all(rows)]
        return sorted(addresses, key=lambda address: (KIND_ORDER[address.kind], address.key))[:max_listed]


def _count_by_kind(rows: QuerySet[Entity]) -> Counter:
    # COUNT(*) instead of the count of a column, so that an index contains everything that the query reads
    return Counter(dict(rows.order_by().values_list("kind").annotate(total=Count("*"))))


def _summary(addresses: list[Address], counts: Counter, checked_count: int) -> EntitiesWithoutPrivilege:
    return EntitiesWithoutPrivilege(
        not counts, checked_count, tuple(addresses), counts.total() - len(addresses)
    )
