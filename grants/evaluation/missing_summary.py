"""What a rule over all live entities lacks, for a reader of the first few: these by name, all others by number.

A page tells of a namespace of any size in a fixed number of queries, and keeps no more of it than it shows.
INVARIANT: what is counted and named here is what `grants.evaluation.facts` gathers in full.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entity_at, live_entities_inside
from entities.vocabulary import KIND_ORDER, Privilege
from grants.evaluation.count_cache import cached_count
from grants.evaluation.effective_grants import GrantTable, grant_tables
from grants.evaluation.entity_filters import ALL
from grants.evaluation.facts import gather_facts
from grants.evaluation.visibility import Visibility
from grants.models import permission_ids
from grants.policies.decide import Facts, HeldGrant, MissingEntities
from grants.policies.explain import Attempt
from grants.policies.question import Question

# a key in a container is the container's, a dot, and more; keys sort by bytes (entities.migrations.0002_byte_order)
_DOT, _AFTER_DOT = ".", "/"


@dataclass(frozen=True, slots=True)
class SummaryFacts:
    """The facts of one question, see `grants.policies.decide.Facts`; of what lacks a privilege it names `most`."""

    question: Question
    facts: Facts
    most: int
    _found: dict = field(default_factory=dict)

    @property
    def subject_is_known(self) -> bool:
        return self.facts.subject_is_known

    def privileges_on(self, place: Address) -> Mapping[Privilege, str]:
        return self.facts.privileges_on(place)

    def has_grant_at_or_below(self, place: Address) -> bool:
        return self.facts.has_grant_at_or_below(place)

    def grant_at_or_below(self, place: Address) -> HeldGrant | None:
        return self.facts.grant_at_or_below(place)

    def missing_entities(self, place: Address, privilege: Privilege, kind: str | None) -> MissingEntities:
        asked = place, privilege, kind
        if asked not in self._found:
            self._found[asked] = _lacking(self.question, place, privilege, kind, self.most)
        return self._found[asked]


def summary_facts(question: Question, most: int) -> SummaryFacts:
    """Explained, of what lacks a privilege the first `most`. One query, and five for a rule over all live entities."""
    return summary_facts_of_generations([question], most)[0]


def summary_facts_of_generations(questions: Sequence[Question], most: int) -> list[SummaryFacts]:
    """The same for questions that differ in their generation alone: what a rule over all live entities looks up is looked up once
    for all of them."""
    every, found = gather_facts(questions, explained=True, ranging=False), {}
    return [SummaryFacts(question, facts, most, found) for question, facts in zip(questions, every, strict=True)]


def visible_missing_entities(question: Question, attempt: Attempt, seen: Visibility, most: int) -> MissingEntities | None:
    """Of what lacks the privilege of an attempt over all live entities, what its reader sees, the first `most` by name; None
    where that is all of it. seen: by the reader, inside the target. At most six queries."""
    (privilege,) = attempt.wanted
    wanted = _Wanted.of(question, attempt.where, privilege, attempt.kind)
    counts = Counter({kind: total for (kind, state), total in seen.counts.items()
                      if state == State.LIVE and attempt.kind in (None, kind)})
    if held := [kind for kind in _by_kind(wanted.held) if kind in counts]:
        of_held = _by_kind(wanted.live.filter(seen.all_rows, *wanted.is_lacked, kind__in=held))
        counts = +Counter(counts | {kind: of_held[kind] for kind in held})
    if counts.total() == len(attempt.missing) + attempt.unlisted_count:
        return None
    return _listed(wanted.first(counts, most, seen.first_rows), counts, total=0)


def _lacking(question: Question, place: Address, privilege: Privilege, kind: str | None, most: int) -> MissingEntities:
    wanted = _Wanted.of(question, place, privilege, kind)
    if wanted is None:
        return MissingEntities(is_empty=True)
    live = cached_count(f"live-{wanted.entity.pk}-{kind or ''}", lambda: _by_kind(wanted.live))
    counts = live - _by_kind(wanted.held)
    return _listed(wanted.first(counts, most), counts, live.total())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A privilege wanted on all live entities in a container. live: these; tables: the grants that count."""

    entity: Entity
    privilege: Privilege
    tables: tuple[GrantTable, ...]
    live: QuerySet[Entity]

    @classmethod
    def of(cls, question: Question, place: Address, privilege: Privilege, kind: str | None) -> "_Wanted | None":
        """None where there is no such container or subject. Two queries."""
        entity, tables = entity_at(place), grant_tables(question.subject_type, question.subject)
        return None if entity is None or tables is None else cls(entity, privilege, tables, live_entities_inside(entity, kind))

    @property
    def _grants(self) -> list[QuerySet]:
        """Those in the container by which it is held."""
        where = {self.entity.kind: self.entity.pk, "permission_id": permission_ids()[self.privilege]}
        return [table.rows(**where).order_by() for table in self.tables]

    @property
    def is_lacked(self) -> list[Exists]:
        """Conditions one by one: the database joins by them, as it does not by one that is made of several."""
        return [~Exists(grants.filter(content_object_id=OuterRef("pk"))) for grants in self._grants]

    @property
    def held(self) -> QuerySet[Entity]:
        """Those on which it is held: from the grants, of which there are mostly fewer than entities."""
        ids = [grants.values_list("content_object_id") for grants in self._grants]
        return self.live.filter(pk__in=ids[0].union(*ids[1:], all=True) if len(ids) > 1 else ids[0])

    def first(self, counts: Counter, most: int, seen: Q = ALL) -> list[Address]:
        """Of those on which it is lacked, the first by address. counts: of each kind, how many. One query, or none where
        there are none."""
        # of all conditions only the range of keys leads to an index, in which these have their order
        lacked = Entity.objects.filter(seen, *self.is_lacked, state=State.LIVE)
        parts, expected = [], 0
        for kind in sorted(counts, key=KIND_ORDER.__getitem__):
            if expected < most:
                inside = lacked.filter(kind=kind, key__gt=f"{self.entity.key}{_DOT}", key__lt=f"{self.entity.key}{_AFTER_DOT}")
                parts.append(inside.order_by("key")[:most])
            expected += counts[kind]
        if not parts:
            return []
        rows = [Entity.objects.filter(pk__in=part.values("pk")).order_by().values_list("kind", "key") for part in parts]
        found = [Address(*row) for row in (rows[0].union(*rows[1:], all=True) if len(rows) > 1 else rows[0])]
        return sorted(found, key=lambda address: (KIND_ORDER[address.kind], address.key))[:most]


def _by_kind(rows: QuerySet[Entity]) -> Counter:
    # of rows and not of their keys: an index has all that this asks for
    return Counter(dict(rows.order_by().values_list("kind").annotate(total=Count("*"))))


def _listed(addresses: list[Address], counts: Counter, total: int) -> MissingEntities:
    return MissingEntities(not counts, total, tuple(addresses), counts.total() - len(addresses))
