"""Load the grants of which `grants.access.paths` collects the paths, for any number of questions with the same few statements."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import Group

from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from entities.vocabulary import CONTAINER_KINDS, Privilege
from grants.access.inside import (
    GrantsInside,
    HolderKey,
    InsideLookup,
    PathsInside,
    grants_inside,
    paths_inside,
)
from grants.access.paths import Path, Ways, ways_to_meet
from grants.evaluation.facts import gather_facts
from grants.models import GroupGrant, User, UserGrant, privilege_of
from grants.policies.grammar import Expression, FactsRead
from grants.policies.question import Question
from grants.querysets import memberships_in_force
from grants.validity import at_time, in_force

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


@dataclass(frozen=True, slots=True)
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
    if subject_type == "group":
        rows = Group.objects.filter(name__among=names).values_list("pk", "name")
    else:
        rows = User.objects.active_principals().filter(username__among=names).values_list("pk", "username")
    return {name: HolderKey(subject_type, pk, name) for pk, name in rows}


def _paths_on(
    subjects: Mapping[str, HolderKey], entities: Mapping[Address, Entity]
) -> dict[tuple[int, int], list[Path]]:
    """Return the paths on exactly these entities. Runs two queries; one for groups."""
    ids, texts = (
        [subject.pk for subject in subjects.values()],
        {row.pk: str(address) for address, row in entities.items()},
    )
    names = {subject.pk: str(subject) for subject in subjects.values()}
    on_entities = {"content_object__in": list(texts), **in_force()}
    if any(subject.type == "group" for subject in subjects.values()):
        rows = GroupGrant.objects.filter(group__pk__among=ids, **on_entities)
        found = [
            (pk, names[pk], *rest)
            for pk, *rest in rows.values_list("group_id", "content_object_id", "permission_id")
        ]
    else:
        rows = UserGrant.objects.filter(user__pk__among=ids, **on_entities)
        found = [
            (pk, names[pk], *rest)
            for pk, *rest in rows.values_list("user_id", "content_object_id", "permission_id")
        ]
        through_groups = GroupGrant.objects.filter(
            group__memberships__user__pk__among=ids, **in_force("group__memberships__"), **on_entities
        )
        found += [
            (pk, f"group:{name}", *rest)
            for pk, name, *rest in through_groups.values_list(
                "group__memberships__user", "group__name", "content_object_id", "permission_id"
            )
        ]
    held = defaultdict(list)
    for pk, principal, entity_id, permission in found:
        held[pk, entity_id].append(Path(principal, texts[entity_id], str(privilege_of(permission))))
    return held


def _load_holders(loaded: _Loaded) -> None:
    """Load the groups of the subjects, once. Runs one query; none for groups."""
    if loaded.holders:
        return
    loaded.holders = {name: [subject] for name, subject in loaded.subjects.items()}
    users = {subject.pk: subject.name for subject in loaded.subjects.values() if subject.type == "user"}
    if users:
        for user_id, group_id, name in (
            memberships_in_force()
            .filter(user__pk__among=list(users))
            .values_list("user_id", "group_id", "group__name")
        ):
            loaded.holders[users[user_id]].append(HolderKey("group", group_id, name))


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
