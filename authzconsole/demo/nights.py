"""Write the figures of the last ninety nights of the demo tenant, as nightly analyses would have found them.

The history is written change by change. Between two changes, these functions compute in memory what Spark computes, for a
tenant that is small enough for that. So trends bend where the journal has the reason.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import Figure
from analytics.runs.schedules import default_options
from analytics.runs.services import validated_options
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.models import GROUP, PRINCIPAL_TYPES, USER, User, privilege_of
from grants.plans.sources.redundant import redundant_grants
from grants.querysets import effective_memberships
from grants.validity import in_force

NIGHTS = 90
# when the runs of a night have finished, after midnight in UTC
FINISHED_AFTER = timedelta(hours=2, minutes=33)

# by analysis, name and namespace
NightFigures = dict[tuple[str, str, str], int]


class Nights:
    """The figures of the nights up to today. Its methods are called between two changes of the history."""

    def __init__(self, today: datetime):
        """today: the start of the day."""
        self._next = today - timedelta(days=NIGHTS - 1) + FINISHED_AFTER
        self._found: list[tuple[datetime, NightFigures]] = []

    def record_until(self, at: datetime, set_clock: Callable[[datetime], None]) -> None:
        """Compute the figures of the nights before `at` that are not computed yet."""
        figures: NightFigures | None = None
        while self._next < at:
            set_clock(self._next)
            figures = figures or dict(night_figures())
            self._found.append((self._next, figures))
            self._next += timedelta(days=1)

    def store(self) -> None:
        """Store the figures of all nights, in the series of runs with the default options."""
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


def night_figures() -> Iterator[tuple[tuple[str, str, str], int]]:
    """Yield the figures of the present state by analysis, name and namespace. Runs six queries."""
    columns = ("pk", "kind", "key", "state", "namespace_id")
    entities = {row.pk: row for row in Entity.objects.only(*columns)}
    live = {row.pk for row in entities.values() if row.state == State.LIVE}
    names = {row.pk: row.key for row in entities.values() if row.kind == "namespace"}
    held, ghosts = _held_privileges(entities)
    holders = defaultdict(set)
    changeable: dict[int, set[int]] = {}
    for user, pairs in held.items():
        changeable[user] = {pk for pk, privilege in pairs if privilege != Privilege.READ and pk in live}
        for pk, privilege in pairs:
            if privilege == Privilege.ADMIN and pk in live:
                holders[pk].add(user)

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


def _held_privileges(entities: dict[int, Entity]) -> tuple[dict[int, set[tuple[int, str]]], Counter]:
    """Return what each active user holds, directly and through groups, and the number of grants in each state of their
    entity, without those of inactive users.
    """
    active = set(User.objects.principals().filter(is_active=True).values_list("pk", flat=True))
    members = defaultdict(list)
    for user, group in effective_memberships().values_list("user_id", "group_id"):
        members[group].append(user)
    held: dict[int, set[tuple[int, str]]] = {user: set() for user in active}
    states: Counter = Counter()
    for principal_type in (PRINCIPAL_TYPES[USER.name], PRINCIPAL_TYPES[GROUP.name]):
        grants = principal_type.grants.filter(**in_force())
        columns = (principal_type.id_column, "content_object_id", "permission_id")
        for principal, pk, permission in grants.values_list(*columns):
            users = [principal] if principal_type is PRINCIPAL_TYPES[USER.name] else members[principal]
            if principal_type is not PRINCIPAL_TYPES[USER.name] or principal in active:
                states[entities[pk].state] += 1
            for user in active.intersection(users):
                held[user].add((pk, privilege_of(permission)))
    return held, states
