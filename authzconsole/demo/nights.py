"""Write the figures of the last ninety nights of the demo tenant, as nightly analyses would have found them, and the uses that
some of them count.

The history is written change by change. Between two changes, these functions compute in memory what Spark computes, for a
tenant that is small enough for that. So trends bend where the journal has the reason.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from datetime import date, datetime, timedelta
from typing import NamedTuple

from django.utils import timezone

from analytics.analyses import ANALYSES, DEFAULT_SINCE_DAYS, AnalysisName
from analytics.models import Figure
from analytics.runs.schedules import default_options
from analytics.runs.services import validated_options
from authzconsole.demo.uses import USED_DAYS, Use, regular_uses
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.models import GROUP, PRINCIPAL_TYPES, USER, User, privilege_of
from grants.plans.sources.redundant import redundant_grants
from grants.querysets import effective_memberships
from grants.usage import UsageRecord, add_usage, days_of_use
from grants.validity import in_force

NIGHTS = 90
# when the runs of a night have finished, after midnight in UTC
FINISHED_AFTER = timedelta(hours=2, minutes=33)

# by analysis, name and namespace
NightFigures = dict[tuple[str, str, str], int]
# by the numbers of a user and an entity: the last day of use
LastUses = dict[tuple[int, int], date]


class _HeldGrant(NamedTuple):
    """A grant in force on an entity. users: the active users who hold it. is_derived: from a grant on a pattern."""

    users: frozenset[int]
    entity: int
    privilege: str
    is_derived: bool


class _State(NamedTuple):
    """The state between two changes. users: the active ones, by number. figures: those that do not depend on uses."""

    entities: dict[int, Entity]
    users: dict[int, User]
    grants: list[_HeldGrant]
    figures: NightFigures

    def uses(self, today: date) -> list[Use]:
        held: dict[User, set[Entity]] = {user: set() for user in self.users.values()}
        for grant in self.grants:
            if (entity := self.entities[grant.entity]).state == State.LIVE:
                for user in grant.users:
                    held[self.users[user]].add(entity)
        return list(regular_uses(held, today))


class Nights:
    """The uses and the figures of the nights up to today. Its methods are called between two changes of the history."""

    def __init__(self, today: datetime):
        """today: the start of the day."""
        self._next = today - timedelta(days=NIGHTS - 1) + FINISHED_AFTER
        self._today = today.date()
        self._next_day = self._today - timedelta(days=USED_DAYS)
        self._found: list[tuple[datetime, NightFigures]] = []
        self._uses: list[UsageRecord] = []
        self._last_uses: LastUses = {}

    def record_until(self, at: datetime, set_clock: Callable[[datetime], None]) -> None:
        """Compute the uses and the figures of the nights before `at` that are not computed yet."""
        state: _State | None = None
        while self._next < at:
            set_clock(self._next)
            if state is None:
                state = _load_state()
                uses = state.uses(self._today)
            night = self._next.date()
            while self._next_day < night:
                self._add_uses(uses, self._next_day)
                self._next_day += timedelta(days=1)
            self._found.append((self._next, state.figures | _unused_figures(state, self._last_uses, night)))
            self._next += timedelta(days=1)

    def _add_uses(self, uses: list[Use], day: date) -> None:
        for use in uses:
            if record := use.on(day):
                self._uses.append(record)
                self._last_uses[use.user.pk, use.entity.pk] = day

    def store(self) -> None:
        """Store the uses, and the figures of all nights in the series of runs with the default options."""
        add_usage(self._uses)
        options = {
            name: validated_options(analysis, default_options(analysis))
            for name, analysis in ANALYSES.items()
        }
        Figure.objects.bulk_create(
            Figure(
                analysis=analysis,
                options=options[analysis],
                finished_at=at,
                name=name,
                subject=namespace,
                value=value,
            )
            for at, figures in self._found
            for (analysis, name, namespace), value in figures.items()
        )


def night_figures() -> NightFigures:
    """Return the figures of the present state, with the stored uses, by analysis, name and namespace. Runs seven queries."""
    state = _load_state()
    last_uses = {
        (row["user_id"], row["entity_id"]): date.fromisoformat(row["last_day"]) for row in days_of_use()
    }
    return state.figures | _unused_figures(state, last_uses, timezone.now().date())


def present_uses(today: date) -> Iterator[UsageRecord]:
    """Yield the uses up to today of a tenant that was always as it is now. Runs five queries."""
    for use in _load_state().uses(today):
        yield from filter(None, (use.on(today - timedelta(days=ago)) for ago in range(USED_DAYS, 0, -1)))


def _unused_figures(state: _State, last_uses: LastUses, night: date) -> NightFigures:
    since = night - timedelta(days=DEFAULT_SINCE_DAYS)
    unused = sum(
        bool(grant.users)
        and state.entities[grant.entity].state == State.LIVE
        and not any(last_uses.get((user, grant.entity), date.min) >= since for user in grant.users)
        for grant in state.grants
    )
    return {(AnalysisName.UNUSED, "grants_that_nobody_used", ""): unused}


def _load_state() -> _State:
    """Return the present state. Runs six queries."""
    columns = ("pk", "kind", "key", "state", "namespace_id")
    entities = {row.pk: row for row in Entity.objects.only(*columns)}
    users = User.objects.principals().filter(is_active=True).only("username").in_bulk()
    grants = list(_held_grants(entities, users))
    return _State(entities, users, grants, dict(_figures(entities, grants)))


def _held_grants(entities: Collection[int], active: Collection[int]) -> Iterator[_HeldGrant]:
    """Yield the grants in force of active users and of groups on these entities; of a derived grant and another one that
    give the same, the other one.
    """
    members = defaultdict(set)
    for user, group in effective_memberships().values_list("user_id", "group_id"):
        members[group].add(user)
    for principal_type in (PRINCIPAL_TYPES[USER.name], PRINCIPAL_TYPES[GROUP.name]):
        columns = (principal_type.id_column, "content_object_id", "permission_id")
        rows = principal_type.held_grants.filter(**in_force()).values_list(*columns, "pattern_id")
        is_derived: dict[tuple[int, int, int], bool] = {}
        for *key, pattern in rows:
            is_derived[tuple(key)] = is_derived.get(tuple(key), True) and pattern is not None
        for (principal, pk, permission), derived in is_derived.items():
            users = {principal} if principal_type is PRINCIPAL_TYPES[USER.name] else members[principal]
            is_held = principal_type is not PRINCIPAL_TYPES[USER.name] or principal in active
            if is_held and pk in entities:
                yield _HeldGrant(frozenset(users.intersection(active)), pk, privilege_of(permission), derived)


def _figures(
    entities: dict[int, Entity], grants: list[_HeldGrant]
) -> Iterator[tuple[tuple[str, str, str], int]]:
    """Yield the figures that do not depend on uses. Runs one query."""
    live = {row.pk for row in entities.values() if row.state == State.LIVE}
    names = {row.pk: row.key for row in entities.values() if row.kind == "namespace"}
    ghosts = Counter(entities[grant.entity].state for grant in grants if not grant.is_derived)
    holders = defaultdict(set)
    changeable: dict[int, set[int]] = defaultdict(set)
    for users, pk, privilege, _ in grants:
        if pk in live:
            if privilege == Privilege.ADMIN:
                holders[pk].update(users)
            if privilege != Privilege.READ:
                for user in users:
                    changeable[user].add(pk)

    contents = defaultdict(set)
    for pk in live:
        namespace = pk if pk in names else entities[pk].namespace_id
        if namespace in live:
            contents[namespace].add(pk)
    undeletable = sum(not set.intersection(*(holders[pk] for pk in inside)) for inside in contents.values())
    yield (AnalysisName.DELETE_READINESS, "namespaces_nobody_can_delete", ""), undeletable

    admins = Counter(len(holders[pk]) for pk in live)
    yield (AnalysisName.STRANDED, "entities_nobody_administers", ""), admins[0]
    yield (AnalysisName.STRANDED, "entities_one_user_administers", ""), admins[1]
    yield (AnalysisName.GHOST_GRANTS, "grants_on_deleted_addresses", ""), ghosts[State.DELETED]
    yield (AnalysisName.GHOST_GRANTS, "grants_on_planned_addresses", ""), ghosts[State.PLANNED]
    yield (AnalysisName.REDUNDANT, "redundant_grants", ""), redundant_grants().count()
    yield (AnalysisName.GUARDRAILS, "guardrail_violations", ""), 0

    most = max(map(len, changeable.values()), default=0)
    yield (AnalysisName.BLAST_RADIUS, "most_changeable", ""), most
    yield (AnalysisName.BLAST_RADIUS, "users_with_admin", ""), len(set().union(*holders.values()))
    reaching = Counter(
        namespace
        for pks in changeable.values()
        for namespace in {pk if pk in names else entities[pk].namespace_id for pk in pks}
    )
    for namespace, users in reaching.items():
        if namespace in names:
            key = (AnalysisName.BLAST_RADIUS, "users_who_can_change_something", names[namespace])
            yield key, users
