"""Read from the history what users held on the addresses that matter for an entity, in a range of revisions."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Q

from entities.address import Address
from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import CONTAINER_KINDS
from grants.bulk_rows import chunks
from grants.evidence import grant_periods
from grants.evidence.grant_periods import (
    REVISIONS,
    GrantPeriodReader,
    GrantPeriods,
    limited_rows,
    periods_in,
    range_within,
)
from grants.evidence.revision_ranges import Range, Ranges, union
from grants.evidence.timeline import HeldPeriod, TargetTimeline, UserTimeline
from grants.models.history import EntityPeriod, HistoryAddress, UserPeriod
from grants.policies.grammar import AnyOf, Expression, FactsRead
from grants.policies.question import Question


@frozen
class UserHistory:
    """All users of a period, by user id: the revisions in which each was an active principal, and the last
    names.
    """

    active: Mapping[int, Ranges]
    names: Mapping[int, str]


@dataclass(slots=True)
class Holdings:
    """What users held. target: see TargetTimeline. held: by user id and address."""

    target: TargetTimeline
    users: UserHistory
    held: dict[int, dict[Address, list[HeldPeriod]]] = field(default_factory=dict)

    def timeline(self, user: int) -> UserTimeline:
        return UserTimeline(self.held.get(user, {}), self.users.active.get(user, ()))


class HoldingsReader:
    """Read what the requirements of one kind test, for many entities together.

    Keeps in memory at most MAX_PERIODS periods of each table, and what users held on one entity and its
    containers.
    """

    def __init__(
        self, kind: str, requirements: Collection[Expression], grants: GrantPeriodReader, users: UserHistory
    ):
        read = FactsRead(AnyOf(tuple(requirements)))
        self._scopes = {leaf.scope for leaf in read.held}
        # a container is tested with everything inside it
        self._is_inside_tested = kind in CONTAINER_KINDS and (read.is_at_or_below or bool(read.all_live))
        self._is_live_tested = bool(read.all_live)
        self._kind, self._grants, self._users = kind, grants, users

    def read(self, questions: Sequence[Question]) -> Iterator[Holdings]:
        """Return the holdings for the target of each question, in order. Raise TooMuchEvidence.

        The number of queries does not depend on the number of targets, up to
        `grants.bulk_rows.ROWS_PER_STATEMENT`.
        """
        tested = [self._tested_addresses(question) for question in questions]
        ids = _address_ids({address for addresses in tested for address in addresses})
        targets = [ids.get(question.known_target, 0) for question in questions]
        inside = self._inside(targets)
        grants = self._grants.read(Q(entity__in=list(ids.values())) | inside)
        live = self._live_inside(inside, set(targets)) if self._is_live_tested and inside else {}
        ids_inside = self._ids_inside(grants, set(targets))
        return (
            self._holdings(
                grants,
                live.get(target, {}),
                target,
                {ids[address] for address in addresses if address in ids} | ids_inside.get(target, set()),
            )
            for target, addresses in zip(targets, tested, strict=True)
        )

    def _tested_addresses(self, question: Question) -> set[Address]:
        addresses = {question.address_at(scope) for scope in self._scopes} | {question.target}
        return {address for address in addresses if address is not None}

    def _inside(self, targets: list[int]) -> Q:
        """Return the condition that the address of a period is inside one of the targets; empty if that is
        not tested.
        """
        if not self._is_inside_tested:
            return Q()
        if self._kind == "instance":
            return Q(pk__isnull=False)
        # no index of the grants starts with a container
        return Q(entity__in=EntityPeriod.objects.filter(**{f"{self._kind}__in": targets}).values("entity"))

    def _containers(self, namespace: int | None, application: int | None, targets: set[int]) -> set[int]:
        """Return which targets contain an address with these containers, or are the address."""
        if self._kind == "instance":
            return targets
        return {namespace if self._kind == "namespace" else application} & targets

    def _live_inside(self, inside: Q, targets: set[int]) -> dict[int, dict[Address, Ranges]]:
        """Return, by id of the target, when each entity inside it was live. Runs one query."""
        live: dict[int, dict[Address, list[Range]]] = defaultdict(lambda: defaultdict(list))
        rows = EntityPeriod.objects.filter(periods_in(self._grants.bounds), inside, state=State.LIVE)
        for entity, kind, key, namespace, application, start, end in limited_rows(
            rows.values_list("entity", "kind", "key", "namespace", "application", *REVISIONS)
        ):
            for target in self._containers(namespace, application, targets) - {entity}:
                live[target][Address(kind, key)].append(range_within(start, end, self._grants.bounds))
        return {
            target: {address: union([ranges]) for address, ranges in of_target.items()}
            for target, of_target in live.items()
        }

    def _ids_inside(self, grants: GrantPeriods, targets: set[int]) -> dict[int, set[int]]:
        """Return, by id of the target, the ids of the addresses inside it on which there are grants."""
        inside: dict[int, set[int]] = defaultdict(set)
        for pk, (_, namespace, application) in grants.addresses.items() if self._is_inside_tested else ():
            for target in self._containers(namespace, application, targets):
                inside[target].add(pk)
        return inside

    def _holdings(
        self, grants: GrantPeriods, live: Mapping[Address, Ranges], target: int, address_ids: set[int]
    ) -> Holdings:
        holdings = Holdings(TargetTimeline(self._grants.bounds, live), self._users)
        remaining = grant_periods.MAX_PERIODS
        for pk in address_ids & grants.addresses.keys():
            address = grants.addresses[pk][0]
            # the targets have their containers in common
            held_on = grants.held_on(
                pk, remaining, is_shared=pk != target and address.kind in CONTAINER_KINDS
            )
            remaining -= held_on.through_groups
            for user, periods in held_on.by_user.items():
                holdings.held.setdefault(user, {})[address] = periods
        return holdings


def read_users(bounds: Range) -> UserHistory:
    """Return all users of the period, because a requirement can be met without a grant.

    Raise TooMuchEvidence.
    """
    active: dict[int, list[Range]] = defaultdict(list)
    names: dict[int, str] = {}
    rows = UserPeriod.objects.filter(periods_in(bounds)).order_by("from_revision")
    for user, name, is_active, is_principal, start, end in limited_rows(
        rows.values_list("user", "name", "is_active", "is_principal", *REVISIONS)
    ):
        names[user] = name
        if is_active and is_principal:
            active[user].append(range_within(start, end, bounds))
    return UserHistory({user: union([ranges]) for user, ranges in active.items()}, names)


def _address_ids(addresses: set[Address]) -> dict[Address, int]:
    ids: dict[Address, int] = {}
    for chunk in chunks(addresses):
        # the kinds lead to the index
        rows = HistoryAddress.objects.filter(
            kind__in={address.kind for address in chunk}, key__in=[a.key for a in chunk]
        )
        ids |= {Address(kind, key): pk for kind, key, pk in rows.values_list("kind", "key", "id")}
    return {address: ids[address] for address in addresses if address in ids}
