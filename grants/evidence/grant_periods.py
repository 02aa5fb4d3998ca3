"""Read the periods of grants and memberships from the history, for many addresses together."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from django.db.models import Q, QuerySet

from entities.address import Address
from entities.frozen import frozen
from entities.patterns import matches, reveals
from grants.bulk_rows import chunks
from grants.errors import GrantError
from grants.evidence.revision_ranges import Range, Ranges, intersection
from grants.evidence.timeline import BoundaryLine, ExistencePeriod, HeldPeriod
from grants.history import first_revisions
from grants.models import JournalLine, privilege_of
from grants.models.history import (
    EntityPeriod,
    GroupGrantPeriod,
    GroupPeriod,
    HistoryAddress,
    MembershipPeriod,
    RoleMembershipPeriod,
    UserGrantPeriod,
    UserPeriod,
)
from grants.policies.principals import group_text
from grants.validity import VALIDITY_COLUMNS, Validity, format_time

MAX_PERIODS = 500_000
REVISIONS = ("from_revision", "until_revision")
_GRANT_COLUMNS = ("entity", "permission", *VALIDITY_COLUMNS, *REVISIONS)


class TooMuchEvidence(GrantError):
    """The evidence would need more rows than the limit. The message says how to ask for less."""


@frozen
class HeldOn:
    """What users held on one address, by user id. through_groups: how many of these periods are through
    groups.
    """

    by_user: Mapping[int, list[HeldPeriod]]
    through_groups: int


@dataclass(slots=True)
class GrantPeriods:
    """The periods of grants on some addresses, and those of the memberships through which they count.

    direct, through_groups: lists of rows, by id of the address. A row starts with the id of the user or
    group.
    addresses: (address, namespace, application) by id. shared: what users held on addresses that several
    targets have in common.
    """

    reader: "GrantPeriodReader"
    direct: dict[int, list[tuple]] = field(default_factory=lambda: defaultdict(list))
    through_groups: dict[int, list[tuple]] = field(default_factory=lambda: defaultdict(list))
    addresses: dict[int, tuple[Address, int | None, int | None]] = field(default_factory=dict)
    shared: dict[int, HeldOn] = field(default_factory=dict)

    def held_on(self, address_id: int, max_through_groups: int, *, is_shared: bool) -> HeldOn:
        """Return what users held on an address. is_shared: keep it for other targets.

        Raise TooMuchEvidence above the limit.
        """
        held_on = self.shared.get(address_id) or self._held_on(address_id, max_through_groups)
        if held_on.through_groups > max_through_groups:
            raise_too_much()
        if is_shared:
            self.shared[address_id] = held_on
        return held_on

    def _held_on(self, address_id: int, max_through_groups: int) -> HeldOn:
        reader, address, count = self.reader, self.addresses[address_id][0], 0
        held: dict[int, list[HeldPeriod]] = defaultdict(list)
        for user, permission, *validity, start, end in self.direct.get(address_id, ()):
            if ranges := reader.ranges(validity, start, end):
                held[user].append(
                    HeldPeriod(
                        f"user:{reader.user_names.get(user, '')}",
                        address,
                        privilege_of(permission),
                        reader.period(validity, start, end),
                        None,
                        ranges,
                    )
                )
        for group, permission, *validity, start, end in self.through_groups.get(address_id, ()):
            principal, privilege = group_text(reader.group_names.get(group, "")), privilege_of(permission)
            grant, of_grant = reader.period(validity, start, end), reader.ranges(validity, start, end)
            for user, *member_validity, member_start, member_end in reader.memberships[group]:
                if ranges := intersection(of_grant, reader.ranges(member_validity, member_start, member_end)):
                    count += 1
                    if count > max_through_groups:
                        raise_too_much()
                    membership = reader.period(member_validity, member_start, member_end)
                    held[user].append(HeldPeriod(principal, address, privilege, grant, membership, ranges))
        return HeldOn(dict(held), count)


@dataclass(slots=True)
class GrantPeriodReader:
    """Read grants in a range of revisions. Memberships, journal lines and names are kept for the next reads,
    up to MAX_PERIODS.

    first_revisions: the first revision at or after each limit of a validity; None after the newest journal
    line.
    """

    bounds: Range
    memberships: dict[int, list[tuple]] = field(default_factory=dict)
    changes: dict[int, BoundaryLine] = field(default_factory=dict)
    first_revisions: dict[datetime, int | None] = field(default_factory=dict)
    group_names: dict[int, str] = field(default_factory=dict)
    user_names: dict[int, str] = field(default_factory=dict)
    _membership_count: int = 0

    def read(self, where: Q) -> GrantPeriods:
        """Return the periods that meet a condition. Raise TooMuchEvidence above MAX_PERIODS of grants to
        users or to groups.

        Runs three queries, and up to seven for what is not known yet, each for up to
        `grants.bulk_rows.ROWS_PER_STATEMENT` ids.
        """
        self._forget_if_full()
        found = GrantPeriods(self)
        overlap = periods_in(self.bounds)
        for model, column, rows_by_address in (
            (UserGrantPeriod, "user", found.direct),
            (GroupGrantPeriod, "group", found.through_groups),
        ):
            rows = model.objects.filter(overlap, where).values_list(column, *_GRANT_COLUMNS)
            for principal, address_id, *row in limited_rows(rows):
                rows_by_address[address_id].append((principal, *row))
        found.addresses = _addresses({*found.direct, *found.through_groups})
        self._add_derived(found, where)
        direct = [row for rows in found.direct.values() for row in rows]
        through_groups = [row for rows in found.through_groups.values() for row in rows]
        try:
            new_rows = self._load_memberships({row[0] for row in through_groups})
        except TooMuchEvidence:
            # without their journal lines, they are incomplete
            self.memberships, self._membership_count = {}, 0
            raise
        self._load_names({row[0] for row in direct}, {row[0] for row in through_groups})
        self._load_lines([*direct, *through_groups, *new_rows])
        return found

    def _add_derived(self, found: GrantPeriods, where: Q) -> None:
        """Add what follows from grants on patterns on the addresses that meet a condition. What shows a container counts as
        a grant on the pattern inside the container.
        """
        overlap = periods_in(self.bounds)
        rows = [
            (rows_by_address, principal, address_id, row)
            for model, column, rows_by_address in (
                (UserGrantPeriod, "user", found.direct),
                (GroupGrantPeriod, "group", found.through_groups),
            )
            for principal, address_id, *row in model.objects.filter(overlap, is_on_pattern=True).values_list(
                column, *_GRANT_COLUMNS
            )
        ]
        if not rows:
            return
        patterns = {pk: address for pk, (address, *_) in _addresses({row[2] for row in rows}).items()}
        places = EntityPeriod.objects.filter(where).values_list(
            "entity", "kind", "key", "namespace", "application"
        )
        mark = 0
        for entity, kind, key, *containers in limited_rows(places.distinct()):
            address = Address(kind, key)
            for pk, pattern in patterns.items():
                of_pattern = [row for row in rows if row[2] == pk]
                if matches(pattern, address):
                    found.addresses[entity] = address, *containers
                    for rows_by_address, principal, _, row in of_pattern:
                        rows_by_address[entity].append((principal, *row))
                if reveals(pattern, address):
                    mark -= 1
                    found.addresses[mark] = pattern, *containers
                    for rows_by_address, principal, _, row in of_pattern:
                        rows_by_address[mark].append((principal, *row))

    def ranges(self, validity: Sequence[datetime | None], start: int, end: int | None) -> Ranges:
        """Return the revisions at which a grant or membership with this period is in force: one range, or
        none.
        """
        valid_from, valid_until = validity
        first, last = range_within(start, end, self.bounds)
        if valid_from is not None:
            revision = self.first_revisions[valid_from]
            first = last if revision is None else max(first, revision)
        if valid_until is not None and (revision := self.first_revisions[valid_until]) is not None:
            last = min(last, revision)
        return ((first, last),) if first < last else ()

    def period(self, validity: Sequence[datetime | None], start: int, end: int | None) -> ExistencePeriod:
        return ExistencePeriod(
            (start, end if end is not None else 2**63 - 1),
            self.changes[start],
            self.changes[end] if end is not None else None,
            Validity(*validity),
        )

    def _forget_if_full(self) -> None:
        if self._membership_count > MAX_PERIODS:
            self.memberships, self._membership_count = {}, 0
        for known in (self.changes, self.first_revisions, self.group_names, self.user_names):
            if len(known) > MAX_PERIODS:
                # the lines of kept memberships are needed as well
                self.memberships, self._membership_count = {}, 0
                known.clear()

    def _load_memberships(self, groups: set[int]) -> list[tuple]:
        """Load the memberships of groups that are not known yet. Return their rows."""
        loaded = []
        for chunk in chunks(groups - self.memberships.keys()):
            self.memberships |= {group: [] for group in chunk}
            for model in (MembershipPeriod, RoleMembershipPeriod):
                rows = model.objects.filter(periods_in(self.bounds), group__in=chunk)
                columns = ("group", "user", *VALIDITY_COLUMNS, *REVISIONS)
                for group, *row in limited_rows(rows.values_list(*columns)):
                    self.memberships[group].append(tuple(row))
                    loaded.append(tuple(row))
        self._membership_count += len(loaded)
        return loaded

    def _load_names(self, users: set[int], groups: set[int]) -> None:
        for chunk in chunks(users - self.user_names.keys()):
            rows = UserPeriod.objects.filter(user__in=chunk).order_by("from_revision")
            self.user_names |= dict.fromkeys(chunk, "") | dict(rows.values_list("user", "name"))
        for chunk in chunks(groups - self.group_names.keys()):
            rows = GroupPeriod.objects.filter(group__in=chunk).order_by("from_revision")
            self.group_names |= dict.fromkeys(chunk, "") | dict(rows.values_list("group", "name"))

    def _load_lines(self, rows: Collection[tuple]) -> None:
        """Load the journal lines that began and ended these periods, and those at the limits of their
        validities.
        """
        revisions = {revision for row in rows for revision in row[-2:] if revision}
        for chunk in chunks(revisions - self.changes.keys()):
            lines = JournalLine.objects.filter(revision__in=chunk).values_list(
                "revision", "at", "actor", "reason"
            )
            self.changes |= {
                revision: BoundaryLine(revision, format_time(at), actor, reason)
                for revision, at, actor, reason in lines
            }
        times = {
            time for row in rows for time in row[-4:-2] if time is not None
        } - self.first_revisions.keys()
        self.first_revisions |= dict.fromkeys(times) | first_revisions(times)


def periods_in(bounds: Range) -> Q:
    """Return the condition that a period overlaps the revisions `bounds`."""
    start, end = bounds
    return Q(from_revision__lt=end) & (Q(until_revision__isnull=True) | Q(until_revision__gt=start))


def range_within(start: int, end: int | None, bounds: Range) -> Range:
    return max(start, bounds[0]), bounds[1] if end is None else min(end, bounds[1])


def limited_rows(rows: QuerySet) -> Iterator[tuple]:
    """Yield the rows. Raise TooMuchEvidence after MAX_PERIODS of them."""
    for count, row in enumerate(rows.iterator(chunk_size=2_000), 1):
        if count > MAX_PERIODS:
            raise_too_much()
        yield row


def raise_too_much() -> NoReturn:
    raise TooMuchEvidence(
        f"the evidence would have more than {MAX_PERIODS:,} periods of grants and memberships: "
        "choose a shorter time, or an entity inside this one"
    )


def _addresses(ids: Iterable[int]) -> dict[int, tuple[Address, int | None, int | None]]:
    """Return each address with the ids of its namespace and application."""
    addresses = {}
    for chunk in chunks(ids):
        rows = HistoryAddress.objects.filter(pk__in=chunk).values_list(
            "pk", "kind", "key", "namespace", "application"
        )
        addresses |= {
            pk: (Address(kind, key), namespace, application) for pk, kind, key, namespace, application in rows
        }
    return addresses
