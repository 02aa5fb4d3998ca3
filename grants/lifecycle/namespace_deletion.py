"""Forecast the deletion of one namespace by one user: the deleted and remaining entities, and the effect on
their grants.

The forecast takes a fixed number of statements. Counts are complete; addresses are queried page by page.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from operator import or_

from django.db.models import Count, Q, QuerySet

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entity_at, live_entities_inside, sorted_by_address, subtree_of
from entities.vocabulary import KINDS, Privilege, join_words, quantity
from grants.change_set import Grant
from grants.errors import LifecycleError
from grants.evaluation.effective_grants import GrantTable, grant_tables
from grants.evaluation.entity_filters import NONE, EntityConditions
from grants.lifecycle.forecast import grants_on, resolve_generation
from grants.models import GrantQuerySet, privilege_of
from grants.policies.grammar import fold
from grants.policies.policy import Generation, OnUndeletable, deletion_steps
from grants.validity import VALIDITY_COLUMNS, Validity

MAX_GHOST_GRANTS = 12


class DeletionVerdict(StrEnum):
    """How the deletion ends.

    complete: the namespace and everything inside it is deleted. partial: the namespace and the entities that
    the user may not delete remain. inconsistent: some kinds are deleted, others remain. stopped: the deletion
    started, but stopped before it deleted anything. refused: the deletion did not start.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    INCONSISTENT = "inconsistent"
    STOPPED = "stopped"
    REFUSED = "refused"


class StepOutcome(StrEnum):
    """How one step of the deletion ends."""

    DELETED = "goes"
    PARTLY_DELETED = "partly"
    STOPS = "stops"
    NOT_REACHED = "not reached"
    EMPTY = "empty"


@frozen
class DeletionStep:
    """One step of the deletion.

    kinds: (kind, number of live entities) of each kind that the step deletes. live: number of all these
    entities.
    missing: number of those that the user may not delete. gone: number of those that are deleted.
    """

    kinds: tuple[tuple[str, int], ...]
    live: int
    missing: int
    gone: int
    outcome: StepOutcome

    @property
    def remains(self) -> int:
        return self.live - self.gone


@frozen
class GhostHolders:
    """The number of holders of one privilege on the deleted entities, who have access again if an entity is
    recreated.

    users: number of active users. groups: number of groups. grants: number of all grants, also those of
    inactive users.
    """

    privilege: Privilege
    users: int
    groups: int
    grants: int


@frozen
class DeletionForecast:
    """The result of `deletion_forecast`. REST returns most fields under the same names.

    namespace_goes: whether the namespace itself is deleted. is_refused: whether the user may not start the
    deletion.
    grants_removed, grants_kept: number of grants on the deleted entities. The generation either removes or
    keeps all of them.
    heirs, heirs_users, heirs_groups: the holders of the kept grants by privilege, and their total numbers.
    ghosts: the first MAX_GHOST_GRANTS kept grants, by address.
    live, gone, remains, missing: number of live, deleted, remaining and undeletable entities, including the
    namespace.
    """

    namespace: Address
    user: str
    generation: Generation
    verdict: DeletionVerdict
    sentence: str
    steps: tuple[DeletionStep, ...]
    namespace_goes: bool
    is_refused: bool
    grants_removed: int = 0
    grants_kept: int = 0
    heirs: tuple[GhostHolders, ...] = ()
    heirs_users: int = 0
    heirs_groups: int = 0
    ghosts: tuple[Grant, ...] = ()

    @property
    def live(self) -> int:
        return sum(step.live for step in self.steps) + 1

    @property
    def gone(self) -> int:
        return sum(step.gone for step in self.steps) + self.namespace_goes

    @property
    def remains(self) -> int:
        return self.live - self.gone

    @property
    def missing(self) -> int:
        return sum(step.missing for step in self.steps) + self.is_refused


def deletion_forecast(
    namespace: Address, user: str, generation: Generation | str | None = None
) -> DeletionForecast:
    """Return what would happen if the user with this name deleted the namespace. Runs at most thirteen
    statements.

    Raise LifecycleError if the address is not a live namespace, and UnknownGeneration if the generation is
    unknown.
    """
    rules, entity, tables = (
        resolve_generation(generation),
        live_namespace(namespace),
        grant_tables("user", user),
    )
    can_start = tables is not None and _meets_namespace_requirement(entity, tables, rules)
    steps = tuple(_steps(entity, tables or (), rules, can_start))
    namespace_goes = can_start and not any(step.remains for step in steps)
    verdict = _verdict(steps, can_start, namespace_goes, rules)
    sentence = _sentence(verdict, f"user:{user}", namespace, steps, tables is not None)
    deleted = _deleted_entities(entity, tables or (), rules, steps, namespace_goes)
    heirs = _ghost_holders(deleted)
    grants = sum(row.grants for row in heirs)
    forecast = DeletionForecast(
        namespace, user, rules, verdict, sentence, steps, namespace_goes, is_refused=not can_start
    )
    if rules.deleting_removes_grants:
        return replace(forecast, grants_removed=grants)
    users, groups = map(_holder_count, grants_on(deleted))
    return replace(
        forecast,
        grants_kept=grants,
        heirs=heirs,
        heirs_users=users,
        heirs_groups=groups,
        ghosts=_first_grants(deleted),
    )


def live_namespace(namespace: Address) -> Entity:
    """Return the entity of a live namespace. Raise LifecycleError for every other address."""
    if namespace.kind != "namespace":
        raise LifecycleError(f"{namespace} is not a namespace: name one, such as namespace:sales")
    entity = entity_at(namespace)
    if entity is None or entity.state != State.LIVE:
        state = "is not registered" if entity is None else f"is {entity.state}"
        raise LifecycleError(f"{namespace} {state}: there is nothing to delete")
    return entity


def undeletable_entities(
    namespace: Address, user: str, generation: Generation | str | None = None
) -> QuerySet[Entity]:
    """Return the live entities that the user may not delete, by address: the namespace and the entities
    inside it.
    """
    rules, entity, tables = (
        resolve_generation(generation),
        live_namespace(namespace),
        grant_tables("user", user) or (),
    )
    namespace_condition = fold(rules.deletion.namespace_requirement, EntityConditions(tables, ["namespace"]))
    undeletable_namespace = Q(kind="namespace") & ~namespace_condition
    undeletable_inside = ~Q(kind="namespace") & ~_deletable_condition(entity, tables, rules)
    return sorted_by_address(
        subtree_of(entity).filter(undeletable_namespace | undeletable_inside, state=State.LIVE)
    )


def _meets_namespace_requirement(entity: Entity, tables: tuple[GrantTable, ...], rules: Generation) -> bool:
    is_met = fold(rules.deletion.namespace_requirement, EntityConditions(tables, ["namespace"]))
    return Entity.objects.filter(is_met, pk=entity.pk).exists()


def _deletable_condition(entity: Entity, tables: tuple[GrantTable, ...], rules: Generation) -> Q:
    """Return the condition that the user may delete an entity inside the namespace, once the deletion has
    started.
    """
    by_requirement: dict = {}
    for kind in (kind for step in deletion_steps() for kind in step):
        by_requirement.setdefault(rules.deletion.requirement_for(kind), []).append(kind)
    return reduce(
        or_,
        (
            Q(kind__in=kinds) & fold(requirement, EntityConditions(tables, kinds, inside=entity))
            for requirement, kinds in by_requirement.items()
        ),
        NONE,
    )


def _steps(
    entity: Entity, tables: tuple[GrantTable, ...], rules: Generation, can_start: bool
) -> Iterator[DeletionStep]:
    """Yield the steps in the order in which the platform executes them. Runs one query."""
    rows = (
        live_entities_inside(entity)
        .order_by()
        .values_list("kind")
        .annotate(Count("pk"), deletable=Count("pk", filter=_deletable_condition(entity, tables, rules)))
    )
    counts = {kind: (live, deletable) for kind, live, deletable in rows}
    is_reached = can_start
    for kinds in deletion_steps():
        present = tuple((kind, counts[kind][0]) for kind in kinds if kind in counts)
        live = sum(count for _, count in present)
        deletable = sum(counts[kind][1] for kind, _ in present)
        outcome = _outcome(live, deletable, is_reached, rules)
        is_reached = is_reached and outcome != StepOutcome.STOPS
        gone = deletable if outcome in (StepOutcome.DELETED, StepOutcome.PARTLY_DELETED) else 0
        yield DeletionStep(present, live, live - deletable, gone, outcome)


def _outcome(live: int, deletable: int, is_reached: bool, rules: Generation) -> StepOutcome:
    if not live:
        return StepOutcome.EMPTY
    if not is_reached:
        return StepOutcome.NOT_REACHED
    if live == deletable:
        return StepOutcome.DELETED
    return (
        StepOutcome.STOPS
        if rules.deletion.on_undeletable == OnUndeletable.STOP
        else StepOutcome.PARTLY_DELETED
    )


def _verdict(
    steps: Sequence[DeletionStep], can_start: bool, namespace_goes: bool, rules: Generation
) -> DeletionVerdict:
    if not can_start:
        return DeletionVerdict.REFUSED
    if namespace_goes:
        return DeletionVerdict.COMPLETE
    if rules.deletion.on_undeletable == OnUndeletable.SKIP:
        return DeletionVerdict.PARTIAL
    return DeletionVerdict.INCONSISTENT if any(step.gone for step in steps) else DeletionVerdict.STOPPED


def _deleted_entities(
    entity: Entity,
    tables: tuple[GrantTable, ...],
    rules: Generation,
    steps: Sequence[DeletionStep],
    namespace_goes: bool,
) -> QuerySet:
    """Return the entities that the deletion would delete."""
    complete = [kind for step in steps if step.outcome == StepOutcome.DELETED for kind, _ in step.kinds]
    partial = [kind for step in steps if step.outcome == StepOutcome.PARTLY_DELETED for kind, _ in step.kinds]
    condition = Q(kind__in=[*complete, "namespace"] if namespace_goes else complete)
    if partial:
        condition |= Q(kind__in=partial) & _deletable_condition(entity, tables, rules)
    return subtree_of(entity).filter(condition, state=State.LIVE).order_by()


def _sentence(
    verdict: DeletionVerdict, user: str, namespace: Address, steps: Sequence[DeletionStep], is_known: bool
) -> str:
    gone, live = sum(step.gone for step in steps), sum(step.live for step in steps)
    live_entities = quantity(live, "live entity", "live entities")
    match verdict:
        case DeletionVerdict.REFUSED if not is_known:
            return f"Nothing is deleted: {user} is not a known, active principal."
        case DeletionVerdict.REFUSED:
            return (
                f"Nothing is deleted: {user} lacks ADMIN on {namespace}, which the deletion requires first."
            )
        case DeletionVerdict.COMPLETE:
            return f"Everything is deleted: {live_entities} in {namespace}, and the namespace."
        case DeletionVerdict.PARTIAL:
            return (
                f"{gone:,} of {live_entities} in {namespace} {'is' if gone == 1 else 'are'} deleted; each of the other "
                f"{live - gone:,} is reported as an error, and the namespace remains."
            )
    stop = next(step for step in steps if step.outcome == StepOutcome.STOPS)
    reason = f"the deletion stops at the {step_title(stop.kinds)}, because {stop.missing:,} of them cannot be deleted"
    if verdict == DeletionVerdict.STOPPED:
        return f"Nothing is deleted: {reason}."
    return (
        f"An inconsistent state: {reason}. By then {gone:,} of {live_entities} in {namespace} "
        f"{'is' if gone == 1 else 'are'} deleted; {live - gone:,} and the namespace remain."
    )


def step_title(kinds: Sequence[tuple[str, int]]) -> str:
    """Return the plural names of the kinds, such as `applications and programs`."""
    return join_words([KINDS[kind].plural for kind, _ in kinds])


def _ghost_holders(deleted: QuerySet[Entity]) -> tuple[GhostHolders, ...]:
    """Return the holders of each privilege on these entities. Runs two statements."""
    users, groups = map(_counts_by_privilege, grants_on(deleted))
    rows = (
        GhostHolders(
            privilege, users[privilege][0], groups[privilege][0], users[privilege][1] + groups[privilege][1]
        )
        for privilege in Privilege
    )
    return tuple(row for row in rows if row.grants)


def _counts_by_privilege(grants: GrantQuerySet) -> dict[Privilege, tuple[int, int]]:
    """Return (principals, grants) of one principal type. Runs one statement."""
    holder = grants.principal_type
    rows = (
        grants.order_by()
        .values_list("permission_id")
        .annotate(
            principals=Count(holder.id_column, distinct=True, filter=holder.is_effective), grants=Count("pk")
        )
    )
    return dict.fromkeys(Privilege, (0, 0)) | {
        privilege_of(permission): tuple(counts) for permission, *counts in rows
    }


def _holder_count(grants: GrantQuerySet) -> int:
    return grants.effective().order_by().values(grants.principal_type.id_column).distinct().count()


def _first_grants(deleted: QuerySet[Entity]) -> tuple[Grant, ...]:
    """Return the first MAX_GHOST_GRANTS grants, by address and principal. Runs two statements."""
    items = []
    for grants in grants_on(deleted):
        columns = (
            "content_object__kind",
            "content_object__key",
            grants.principal_type.name_path,
            "permission_id",
        )
        rows = grants.order_by(*columns)[:MAX_GHOST_GRANTS]
        items += [
            Grant(principal, address, privilege, Validity(*period))
            for principal, address, privilege, *period in rows.grant_keys(*VALIDITY_COLUMNS)
        ]
    privileges = list(Privilege)
    items.sort(
        key=lambda item: (
            item.address.kind,
            item.address.key,
            item.principal,
            privileges.index(item.privilege),
        )
    )
    return tuple(items[:MAX_GHOST_GRANTS])
