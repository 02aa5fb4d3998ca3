"""Read from the history what users held on the addresses that matter for one entity, in a range of revisions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from entities.address import Address
from entities.models import State
from entities.vocabulary import CONTAINER_KINDS
from grants.bulk_rows import chunks
from grants.errors import GrantError
from grants.evidence.revision_ranges import Range, Ranges, intersection, union
from grants.evidence.timeline import Change, HeldPeriod, Period, TargetTimeline, UserTimeline
from grants.history_models import (
    EntityPeriod,
    GroupGrantPeriod,
    GroupPeriod,
    HistoryAddress,
    MembershipPeriod,
    UserGrantPeriod,
    UserPeriod,
)
from grants.models import JournalLine, privilege_of
from grants.policies.grammar import Has, HasAtOrBelow, HasOnAllLive, leaves
from grants.policies.question import Question

MAX_PERIODS = 500_000


class TooMuchEvidence(GrantError):
    """The evidence would need more rows than the limit. The message says how to ask for less."""


@dataclass(slots=True)
class Holdings:
    """What users held. held: by user id and address. active: by user id. names: of users. target: see TargetTimeline."""

    target: TargetTimeline
    held: dict[int, dict[Address, list[HeldPeriod]]] = field(default_factory=dict)
    active: dict[int, Ranges] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def timeline(self, user: int) -> UserTimeline:
        return UserTimeline(self.held.get(user, {}), self.active.get(user, ()))


def read_holdings(question: Question, requirements: Iterable, bounds: Range) -> Holdings:
    """Return the holdings that the requirements of `question` test, in these revisions.

    Keeps at most MAX_PERIODS periods of each table in memory. Raise TooMuchEvidence if there are more.
    """
    tested = [leaf for requirement in requirements for leaf in leaves(requirement)]
    addresses = {address for leaf in tested if isinstance(leaf, Has) and (address := question.address_at(leaf.scope))}
    target = question.known_target
    # a container is tested with everything inside it
    is_inside_tested = any(isinstance(leaf, HasAtOrBelow | HasOnAllLive) for leaf in tested)
    ids = _address_ids(addresses | {target})
    inside = _inside(target, ids) if is_inside_tested else Q(pk__in=[])
    overlap = _overlap(bounds)
    needs_live = any(isinstance(leaf, HasOnAllLive) for leaf in tested)
    holdings = Holdings(TargetTimeline(bounds, _live_inside(target, inside, overlap, bounds) if needs_live else {}))
    where = overlap & (Q(entity__in=list(ids.values())) | inside)
    _read_grants(holdings, where, bounds)
    _read_users(holdings, overlap, bounds)
    return holdings


def _overlap(bounds: Range) -> Q:
    start, end = bounds
    return Q(from_revision__lt=end) & (Q(until_revision__isnull=True) | Q(until_revision__gt=start))


def _address_ids(addresses: set[Address]) -> dict[Address, int]:
    rows = HistoryAddress.objects.filter(key__in={address.key for address in addresses}).values_list("kind", "key", "id")
    ids = {Address(kind, key): pk for kind, key, pk in rows}
    return {address: ids[address] for address in addresses if address in ids}


def _inside(target: Address, ids: Mapping[Address, int]) -> Q:
    """Return the condition that the address of a period is the target or inside it."""
    if target.kind == "instance":
        return Q()
    if target.kind not in CONTAINER_KINDS or target not in ids:
        return Q(entity__in=[ids[target]] if target in ids else [])
    return Q(**{target.kind: ids[target]}) | Q(entity=ids[target])


def _live_inside(target: Address, inside: Q, overlap: Q, bounds: Range) -> dict[Address, Ranges]:
    rows = EntityPeriod.objects.filter(overlap & inside, state=State.LIVE)
    live: dict[Address, list[Range]] = defaultdict(list)
    for kind, key, start, end in _limited(rows.values_list("kind", "key", "from_revision", "until_revision")):
        address = Address(kind, key)
        if address != target:
            live[address].append(_clipped(start, end, bounds))
    return {address: union([ranges]) for address, ranges in live.items()}


def _read_grants(holdings: Holdings, where: Q, bounds: Range) -> None:
    columns = ("entity", "permission", "from_revision", "until_revision")
    direct = list(_limited(UserGrantPeriod.objects.filter(where).values_list("user", *columns)))
    through_groups = list(_limited(GroupGrantPeriod.objects.filter(where).values_list("group", *columns)))
    groups = {group for group, *_ in through_groups}
    memberships: dict[int, list[tuple]] = defaultdict(list)
    for chunk in chunks(groups):
        rows = MembershipPeriod.objects.filter(_overlap(bounds), group__in=chunk)
        for group, user, start, end in _limited(rows.values_list("group", "user", "from_revision", "until_revision")):
            memberships[group].append((user, start, end))
    addresses = _addresses({row[1] for row in (*direct, *through_groups)})
    revisions = {revision for *_, start, end in (*direct, *through_groups) for revision in (start, end) if revision}
    revisions |= {revision for rows in memberships.values() for _, *pair in rows for revision in pair if revision}
    changes = _changes(revisions)
    group_names = dict(GroupPeriod.objects.filter(group__in=groups).order_by("from_revision").values_list("group", "name"))
    user_names = _user_names({user for user, *_ in direct})
    total = 0
    for user, entity, permission, start, end in direct:
        period = _period(start, end, changes)
        _add(holdings, user, HeldPeriod(f"user:{user_names.get(user, '')}", addresses[entity], privilege_of(permission), period,
                                        None, (_clipped(start, end, bounds),)))
    for group, entity, permission, start, end in through_groups:
        grant = _period(start, end, changes)
        for user, member_start, member_end in memberships[group]:
            membership = _period(member_start, member_end, changes)
            ranges = intersection((_clipped(start, end, bounds),), (_clipped(member_start, member_end, bounds),))
            if ranges:
                total += 1
                _check_limit(total)
                _add(holdings, user, HeldPeriod(f"group:{group_names.get(group, '')}", addresses[entity],
                                                privilege_of(permission), grant, membership, ranges))


def _add(holdings: Holdings, user: int, held: HeldPeriod) -> None:
    holdings.held.setdefault(user, {}).setdefault(held.entity, []).append(held)


def _read_users(holdings: Holdings, overlap: Q, bounds: Range) -> None:
    """Read all users of the period, because a requirement can be met without a grant."""
    active: dict[int, list[Range]] = defaultdict(list)
    rows = UserPeriod.objects.filter(overlap).order_by("from_revision")
    for user, name, is_active, is_principal, start, end in _limited(rows.values_list(
            "user", "name", "is_active", "is_principal", "from_revision", "until_revision")):
        holdings.names[user] = name
        if is_active and is_principal:
            active[user].append(_clipped(start, end, bounds))
    holdings.active = {user: union([ranges]) for user, ranges in active.items()}


def _user_names(users: set[int]) -> dict[int, str]:
    names: dict[int, str] = {}
    for chunk in chunks(users):
        names |= dict(UserPeriod.objects.filter(user__in=chunk).order_by("from_revision").values_list("user", "name"))
    return names


def _addresses(ids: set[int]) -> dict[int, Address]:
    addresses = {}
    for chunk in chunks(ids):
        rows = HistoryAddress.objects.filter(pk__in=chunk).values_list("pk", "kind", "key")
        addresses |= {pk: Address(kind, key) for pk, kind, key in rows}
    return addresses


def _changes(revisions: set[int]) -> dict[int, Change]:
    changes = {}
    for chunk in chunks(revisions):
        rows = JournalLine.objects.filter(revision__in=chunk).values_list("revision", "at", "actor", "reason")
        changes |= {revision: Change(revision, at.isoformat(timespec="seconds").replace("+00:00", "Z"), actor, reason)
                    for revision, at, actor, reason in rows}
    return changes


def _period(start: int, end: int | None, changes: Mapping[int, Change]) -> Period:
    return Period((start, end if end is not None else 2**63 - 1), changes[start], changes[end] if end is not None else None)


def _clipped(start: int, end: int | None, bounds: Range) -> Range:
    return max(start, bounds[0]), bounds[1] if end is None else min(end, bounds[1])


def _limited(rows: QuerySet) -> Iterator[tuple]:
    for count, row in enumerate(rows.iterator(chunk_size=2_000), 1):
        _check_limit(count)
        yield row


def _check_limit(count: int) -> None:
    if count > MAX_PERIODS:
        raise TooMuchEvidence(f"the evidence would have more than {MAX_PERIODS:,} periods of grants and memberships: "
                              "choose a shorter time, or an entity inside this one")
