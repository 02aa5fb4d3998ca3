"""Load the grants of which `grants.access.paths` collects the paths, for any number of questions with the same few statements."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby
from operator import itemgetter

from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Collate, Concat

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import CONTAINER_KINDS, Privilege
from grants.access.paths import Path, Ways, ways_to_meet
from grants.access.requirements import operations_by_requirement
from grants.bulk_rows import database_time
from grants.evaluation.facts import gather_facts
from grants.evaluation.raw_statement import fetch_rows
from grants.holders import byte_order
from grants.models import GRANT_SOURCES, GROUP, PRINCIPAL_TYPES, USER, permission_ids, privilege_of
from grants.policies.grammar import Expression, FactsRead
from grants.policies.policy import Generation
from grants.policies.principals import principal_text
from grants.policies.question import Question
from grants.validity import at_time, in_force, in_force_sql, question_time

ROWS_PER_CHUNK = 2_000


@frozen
class HolderKey:
    """A principal with grants. type: `user` or `group`."""

    type: str
    pk: int
    name: str

    def __str__(self) -> str:
        return principal_text(self.type, self.name)


@frozen
class InsideLookup:
    """The grants of `holder` on `container` or inside it.

    privilege: if it is set, only grants of this privilege on live entities inside the container, but not on
    the container.
    kind: only entities of this kind; None for every kind.
    at: the time at which the grants are in force, by default that of the question.
    """

    holder: HolderKey
    container: Entity
    privilege: Privilege | None = None
    kind: str | None = None
    at: datetime = field(default_factory=question_time)

    @property
    def shape(self) -> tuple[str, str, bool, bool]:
        """The properties on which the text of the statement depends."""
        return self.holder.type, self.container.kind, self.privilege is not None, self.kind is not None

    def all_paths(self) -> Iterator[Path]:
        """Yield all paths, sorted. They are read in chunks, so memory does not grow with their number."""
        holders = PRINCIPAL_TYPES[self.holder.type]
        rows = holders.held_grants.filter(**{holders.id_column: self.holder.pk}, **in_force(at=self.at))
        rows = rows.filter(**{f"{self.container.kind}_id": self.container.pk})
        if self.privilege is not None:
            rows = rows.filter(
                permission_id=permission_ids()[self.privilege], content_object__state=State.LIVE
            )
            rows = rows.exclude(content_object_id=self.container.pk)
        if self.kind is not None:
            rows = rows.filter(content_object__kind=self.kind)
        address = Collate(
            Concat(F("content_object__kind"), Value(":"), F("content_object__key")), byte_order()
        )
        pairs = rows.annotate(address=address).order_by("address").values_list("address", "permission_id")
        for entity, grants in groupby(pairs.iterator(chunk_size=ROWS_PER_CHUNK), key=itemgetter(0)):
            # a grant and derived grants can give the same
            for privilege in sorted({str(privilege_of(permission)) for _, permission in grants}):
                yield Path(str(self.holder), entity, privilege)


@frozen
class GrantsInside:
    """The first grants that a lookup found. rows: (id of the entity, path), those with the lowest ids if
    there are more.
    """

    lookup: InsideLookup
    rows: tuple[tuple[int, Path], ...]
    is_complete: bool


@frozen
class PathsInside:
    """The paths of one subject inside a container, through all its holders; see
    `grants.access.paths.PathSource`.
    """

    parts: tuple[GrantsInside, ...]
    listed_paths: tuple[Path, ...]
    is_complete: bool

    def __iter__(self) -> Iterator[Path]:
        # all paths of a holder have the same principal, so the lists of the holders follow each other
        by_holder = sorted(self.parts, key=lambda part: str(part.lookup.holder))
        return chain.from_iterable(
            sorted(path for _, path in part.rows) if part.is_complete else part.lookup.all_paths()
            for part in by_holder
        )


def paths_inside(parts: Sequence[GrantsInside]) -> PathsInside:
    """Return the paths of all these lookups, which have the same container."""
    incomplete = [part for part in parts if not part.is_complete]
    rows = [row for part in parts for row in part.rows]
    if incomplete and incomplete[0].lookup.privilege is not None:
        # List only entities of which the grants of every holder are loaded: then a single listed grant is the
        # only one.
        last = min(part.rows[-1][0] for part in incomplete)
        rows = [row for row in rows if row[0] <= last]
    return PathsInside(tuple(parts), tuple(sorted(path for _, path in rows)), not incomplete)


def grants_inside(lookups: Sequence[InsideLookup], max_paths: int) -> dict[InsideLookup, GrantsInside]:
    """Return the first `max_paths` grants of each lookup. Runs one query for each shape of lookups, so at
    most two for users and groups if all lookups are about one kind of container and one leaf."""
    by_shape: dict[tuple, list[InsideLookup]] = defaultdict(list)
    for lookup in dict.fromkeys(lookups):
        by_shape[lookup.shape].append(lookup)
    found = {}
    for shape, group in by_shape.items():
        for lookup, text in zip(group, _texts(shape, group, max_paths + 1), strict=True):
            rows = [_row(lookup.holder, line) for line in text.split("\n")] if text else []
            found[lookup] = GrantsInside(lookup, tuple(rows[:max_paths]), len(rows) <= max_paths)
    return found


def _row(holder: HolderKey, line: str) -> tuple[int, Path]:
    permission, entity_id, address = line.split(" ", 2)
    return int(entity_id), Path(str(holder), address, str(privilege_of(int(permission))))


def _texts(
    shape: tuple[str, str, bool, bool], lookups: Sequence[InsideLookup], limit: int
) -> list[str | None]:
    ids = permission_ids()
    rows = [
        (
            number,
            lookup.holder.pk,
            lookup.container.pk,
            ids[lookup.privilege] if lookup.privilege else 0,
            lookup.kind or "",
            str(database_time(lookup.at)),
        )
        for number, lookup in enumerate(lookups)
    ]
    texts: list[str | None] = [None] * len(lookups)
    for number, text in fetch_rows(_statement(*shape), [json.dumps(rows), limit]):
        texts[number] = text
    return texts


def _statement(holder_type: str, container_kind: str, has_privilege: bool, has_kind: bool) -> str:
    """Return the statement for lookups of this shape: each is a subquery that reads the first rows of an
    index.

    A row of the result is (number of the lookup, lines with permission, id and address of the entity).
    """
    holders, entity = PRINCIPAL_TYPES[holder_type], Entity._meta.db_table
    conditions = [
        f"g.{holders.id_column} = a.holder",
        in_force_sql("g", "a.at"),
        f"g.{container_kind}_id = a.container",
    ]
    order = "g.permission_id, g.content_object_id"
    if has_privilege:
        order = "g.content_object_id"
        is_kind = " AND d.kind = a.kind" if has_kind else ""
        conditions += [
            "g.permission_id = a.permission",
            "g.content_object_id <> a.container",
            f"(SELECT 1 FROM {entity} d WHERE d.id = g.content_object_id AND d.state = '{State.LIVE}'{is_kind} "
            f"LIMIT 1) IS NOT NULL",
        ]
    line = (
        f"CAST(g.permission_id AS text) || ' ' || CAST(g.content_object_id AS text) || ' ' || "
        f"(SELECT e.kind || ':' || e.key FROM {entity} e WHERE e.id = g.content_object_id)"
    )
    grants = (
        f"SELECT {line} AS line FROM {holders.grant_model._meta.db_table} g WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT CAST(%s AS bigint)"
    )
    if connection.vendor == "postgresql":
        values = ", ".join(
            f"CAST(value ->> {position} AS {sql_type}) AS {name}"
            for position, (name, sql_type) in enumerate(_COLUMNS.items())
        )
        source = f"SELECT {values} FROM jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)"
        lines = "string_agg(h.line, chr(10))"
    else:
        values = ", ".join(
            f"json_extract(value, '$[{position}]') AS {name}" for position, name in enumerate(_COLUMNS)
        )
        source, lines = f"SELECT {values} FROM json_each(%s)", "group_concat(h.line, char(10))"
    return f"WITH a AS ({source}) SELECT a.no, (SELECT {lines} FROM ({grants}) h) FROM a"


_COLUMNS = {
    "no": "bigint",
    "holder": "bigint",
    "container": "bigint",
    "permission": "bigint",
    "kind": "text",
    "at": "timestamptz",
}


# Number of grants inside a container that are loaded for each holder.
PATHS_PER_HOLDER = 50

# (name of the subject, container, privilege, kind)
AllLive = tuple[str, Address, Privilege, str | None]


def ways_of(questions: Sequence[Question], *, paths_per_holder: int = PATHS_PER_HOLDER) -> list[Ways | None]:
    """Return how each question is permitted, in order; None for a denial. All subjects must have the same
    type.

    Runs four queries for requirements about single entities, and up to six more for requirements about
    containers.
    """
    if not questions:
        return []
    with at_time():
        loaded = _Loaded.of(questions)
        _load_below(loaded, questions, paths_per_holder)
        _load_all_live(loaded, questions, paths_per_holder)
        return [_ways(loaded, question) for question in questions]


def permitted_operations(
    subject_type: str,
    pairs: Sequence[tuple[str, Address]],
    generation: Generation,
    operations: Iterable[str] | None = None,
    **options: int,
) -> list[dict[str, Ways]]:
    """Return, for each pair of a subject and an address, how each permitted operation is permitted, sorted by code
    points. Runs the queries of `ways_of`, which also gets the options.

    operations: only these; all operations of the kind by default.
    """
    operations = None if operations is None else list(operations)
    grouped = {
        kind: operations_by_requirement(generation, kind, operations)
        for kind in {address.kind for _, address in pairs}
    }
    questions = [
        Question(subject_type, subject, same[0], address, generation.name)
        for subject, address in pairs
        for same in grouped[address.kind].values()
    ]
    found = iter(ways_of(questions, **options))
    permitted = []
    for _, address in pairs:
        ways = {
            operation: way
            for same in grouped[address.kind].values()
            for way in [next(found)]
            if way is not None
            for operation in same
        }
        permitted.append({operation: ways[operation] for operation in sorted(ways)})
    return permitted


def requirement_of(question: Question) -> Expression | None:
    policy = question.policy
    return None if policy is None else policy.requirement


@dataclass(slots=True)
class _Loaded:
    """The loaded grants.

    subjects: the known subjects, by name. entities: the rows of the addresses that the questions are about.
    held: paths by (primary key of the subject, of the entity).
    holders: the subject and its groups, by name of the subject. inside: the grants inside containers.
    all_live: the leaves `HasOnAllLive` that are met.
    """

    subjects: Mapping[str, HolderKey]
    entities: Mapping[Address, Entity]
    held: Mapping[tuple[int, int], list[Path]]
    holders: dict[str, list[HolderKey]] = field(default_factory=dict)
    inside: dict[InsideLookup, GrantsInside] = field(default_factory=dict)
    all_live: set[AllLive] = field(default_factory=set)

    @classmethod
    def of(cls, questions: Sequence[Question]) -> "_Loaded":
        """Load the subjects, the entities and the grants on exactly these entities.

        Runs four queries; three for groups.
        """
        addresses = {address for question in questions for address in _addresses(question)}
        subjects = _subjects(questions[0].subject_type, {question.subject for question in questions})
        entities = entities_at(addresses)
        return cls(subjects, entities, _paths_on(subjects, entities))

    def lookups(
        self, subject: str, address: Address, privilege: Privilege | None = None, kind: str | None = None
    ) -> list[InsideLookup]:
        container = self.entities.get(address)
        return (
            []
            if container is None
            else [InsideLookup(holder, container, privilege, kind) for holder in self.holders[subject]]
        )


@frozen
class _SubjectFacts:
    """The grants of one subject; see `grants.access.paths.AccessFacts`.

    assumes_all_live: treat every `HasOnAllLive` as met, to find the questions for which it must be checked.
    """

    loaded: _Loaded
    subject: HolderKey
    assumes_all_live: bool = False

    def grants_on(self, address: Address, privileges: Iterable[Privilege]) -> tuple[Path, ...]:
        entity = self.loaded.entities.get(address)
        if entity is None:
            return ()
        names = {str(privilege) for privilege in privileges}
        return tuple(
            sorted(
                path
                for path in self.loaded.held.get((self.subject.pk, entity.pk), ())
                if path.privilege in names
            )
        )

    def grants_at_or_below(self, address: Address) -> PathsInside:
        return self._paths_inside(self.loaded.lookups(self.subject.name, address))

    def grants_on_all_live(self, address: Address, privilege: Privilege, kind: str | None) -> Ways | None:
        if self.assumes_all_live:
            return Ways()
        if (self.subject.name, address, privilege, kind) not in self.loaded.all_live:
            return None
        source = self._paths_inside(self.loaded.lookups(self.subject.name, address, privilege, kind))
        counts = Counter(path.entity for path in source.listed_paths)
        return Ways((source,), frozenset(path for path in source.listed_paths if counts[path.entity] == 1))

    def _paths_inside(self, lookups: Sequence[InsideLookup]) -> PathsInside:
        return paths_inside([part for lookup in lookups if (part := self.loaded.inside[lookup]).rows])


def _ways(loaded: _Loaded, question: Question, *, assumes_all_live: bool = False) -> Ways | None:
    requirement, subject = requirement_of(question), loaded.subjects.get(question.subject)
    if requirement is None or subject is None:
        return None
    return ways_to_meet(requirement, question, _SubjectFacts(loaded, subject, assumes_all_live))


def _addresses(question: Question) -> list[Address]:
    read = FactsRead(requirement_of(question))
    found = [question.address_at(leaf.scope) for leaf in read.held]
    if read.is_at_or_below or read.all_live:
        found.append(question.target)
    return [address for address in found if address is not None]


def _subjects(subject_type: str, names: set[str]) -> dict[str, HolderKey]:
    """Return the active principals with these names. Runs one query."""
    subjects = PRINCIPAL_TYPES[subject_type]
    rows = subjects.active_principals.filter(**{f"{subjects.name_column}__among": names})
    return {
        name: HolderKey(subject_type, pk, name) for pk, name in rows.values_list("pk", subjects.name_column)
    }


def _paths_on(
    subjects: Mapping[str, HolderKey], entities: Mapping[Address, Entity]
) -> dict[tuple[int, int], list[Path]]:
    """Return the paths on exactly these entities. Runs two queries."""
    ids, texts = (
        [subject.pk for subject in subjects.values()],
        {row.pk: str(address) for address, row in entities.items()},
    )
    names = {subject.pk: str(subject) for subject in subjects.values()}
    held = defaultdict(list)
    for source in GRANT_SOURCES[next((subject.type for subject in subjects.values()), "user")]:
        rows = source.rows(**{f"{source.subject}__pk__among": ids, "content_object__in": list(texts)})
        # the names of the subjects are known
        holder = [source.holder.name_path] if source.membership else []
        columns = (source.subject, "content_object_id", "permission_id", *holder)
        # a user may be in a role in several ways
        for pk, entity_id, permission, *name in rows.order_by().values_list(*columns).distinct():
            principal = principal_text(source.holder.name, name[0]) if name else names[pk]
            held[pk, entity_id].append(Path(principal, texts[entity_id], str(privilege_of(permission))))
    # a grant and derived grants can give the same
    return {key: list(dict.fromkeys(paths)) for key, paths in held.items()}


def _load_holders(loaded: _Loaded) -> None:
    """Load the groups and roles of the subjects, once. Runs one query."""
    if loaded.holders:
        return
    loaded.holders = {name: [subject] for name, subject in loaded.subjects.items()}
    names = {subject.pk: subject.name for subject in loaded.subjects.values()}
    _, through = GRANT_SOURCES[next((subject.type for subject in loaded.subjects.values()), USER.name)]
    member, group = (column.removesuffix("_id") for column in (through.member_column, through.group_column))
    rows = through.memberships.filter(**in_force(), **{f"{member}__pk__among": list(names)})
    for pk, group_id, name in rows.values_list(member, group, f"{group}__name").distinct():
        loaded.holders[names[pk]].append(HolderKey(GROUP.name, group_id, name))


def _load_below(loaded: _Loaded, questions: Sequence[Question], paths_per_holder: int) -> None:
    """Load the first grants for `HasAtOrBelow` on containers. Runs up to three queries."""
    needed = {
        (question.subject, question.target)
        for question in questions
        if question.subject in loaded.subjects
        and question.target is not None
        and question.target.kind in CONTAINER_KINDS
        and FactsRead(requirement_of(question)).is_at_or_below
    }
    if needed:
        _load_holders(loaded)
        lookups = [
            lookup
            for subject, target in sorted(needed, key=str)
            for lookup in loaded.lookups(subject, target)
        ]
        loaded.inside |= grants_inside(lookups, paths_per_holder)


def _load_all_live(loaded: _Loaded, questions: Sequence[Question], paths_per_holder: int) -> None:
    """Decide the leaves `HasOnAllLive` on which a decision depends, and load their grants.

    Runs up to four queries.
    """
    open_questions = [
        question
        for question in questions
        if FactsRead(requirement_of(question)).all_live
        and _ways(loaded, question, assumes_all_live=True) is not None
    ]
    for question, facts in zip(open_questions, gather_facts(open_questions), strict=True):
        for leaf in FactsRead(requirement_of(question)).all_live:
            if facts.entities_without_privilege(question.known_target, leaf.privilege, leaf.kind).is_empty:
                loaded.all_live.add((question.subject, question.known_target, leaf.privilege, leaf.kind))
    if loaded.all_live:
        _load_holders(loaded)
        lookups = [lookup for leaf in sorted(loaded.all_live, key=str) for lookup in loaded.lookups(*leaf)]
        loaded.inside |= grants_inside(lookups, paths_per_holder)
