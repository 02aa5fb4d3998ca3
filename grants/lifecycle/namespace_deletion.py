"""If this person deleted this namespace now: what would go, what would remain, and what the grants on it would become.

One person and one namespace, from the database, in a fixed number of statements; addresses by the page, counts always.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import or_

from django.db.models import Count, Q, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entity_at, live_entities_inside, sorted_by_address, subtree_of
from entities.vocabulary import KINDS, Privilege, quantity
from grants.changes.outcomes import ChangeItem
from grants.errors import LifecycleError
from grants.evaluation.effective_grants import GrantTable, grant_tables
from grants.evaluation.entity_filters import NONE, FilterContext, requirement_condition
from grants.lifecycle.forecast import resolve_generation
from grants.models import GRANT_TABLES, NAME_COLUMNS, privilege_of
from grants.policies.deletion_rules import OnUndeletable, deletion_steps
from grants.policies.policy import Generation
from grants.querysets import effective_grant_condition

MAX_GHOSTS = 12


class DeletionVerdict(StrEnum):
    """complete: all of it goes, the namespace too. partial: what may not be deleted remains, and the namespace with it.
    inconsistent: some types go and others do not. stopped: begun, and stopped before anything went. refused: not begun.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    INCONSISTENT = "inconsistent"
    STOPPED = "stopped"
    REFUSED = "refused"


class StepOutcome(StrEnum):
    GOES = "goes"
    PARTLY = "partly"
    STOPS = "stops"
    NOT_REACHED = "not reached"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """The live entities of one type, or of the few that go together. missing: of them, how many the person may not delete."""

    kinds: tuple[tuple[str, int], ...]
    live: int
    missing: int
    gone: int
    outcome: StepOutcome

    @property
    def remains(self) -> int:
        return self.live - self.gone


@dataclass(frozen=True, slots=True)
class GhostHolders:
    """Who holds a privilege on what would be gone: access at once for them, where an address is recreated.

    users: active ones. grants: of everybody, those of the inactive too.
    """

    privilege: Privilege
    users: int
    groups: int
    grants: int


@dataclass(frozen=True, slots=True)
class DeletionForecast:
    """grants_removed, grants_kept: on what goes, one privilege of one principal each; which of them, the generation says.
    heirs, heirs_users, heirs_groups: who hold the grants kept. ghosts: the first MAX_GHOSTS of them, by address.
    lacks_namespace: whether the namespace itself is among what the person may not delete.
    """

    namespace: Address
    user: str
    generation: Generation
    verdict: DeletionVerdict
    sentence: str
    steps: tuple[DeletionStep, ...]
    namespace_goes: bool
    lacks_namespace: bool
    grants_removed: int = 0
    grants_kept: int = 0
    heirs: tuple[GhostHolders, ...] = ()
    heirs_users: int = 0
    heirs_groups: int = 0
    ghosts: tuple[ChangeItem, ...] = ()

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
        return sum(step.missing for step in self.steps) + self.lacks_namespace


def deletion_forecast(namespace: Address, user: str, generation: Generation | str | None = None) -> DeletionForecast:
    """user: a name. Raises LifecycleError where that is no live namespace, UnknownGeneration. At most thirteen statements."""
    rules, entity, tables = resolve_generation(generation), live_namespace(namespace), grant_tables("user", user)
    begins = tables is not None and _begins(entity, tables, rules)
    found = tuple(_steps(entity, tables or (), rules, begins))
    goes = begins and not any(step.remains for step in found)
    verdict = _verdict(found, begins, goes, rules)
    sentence = _sentence(verdict, f"user:{user}", namespace, found, tables is not None)
    gone = _gone(entity, tables or (), rules, found, goes)
    heirs = _heirs(gone)
    grants = sum(row.grants for row in heirs)
    forecast = DeletionForecast(namespace, user, rules, verdict, sentence, found, goes, lacks_namespace=not begins)
    if rules.deleting_removes_grants:
        return replace(forecast, grants_removed=grants)
    return replace(forecast, grants_kept=grants, heirs=heirs, heirs_users=_principals("user", gone),
                   heirs_groups=_principals("group", gone), ghosts=_first_grants(gone))


def live_namespace(namespace: Address) -> Entity:
    """Raises LifecycleError where that is no live namespace."""
    if namespace.kind != "namespace":
        raise LifecycleError(f"{namespace} is not a namespace: name one, such as namespace:sales")
    entity = entity_at(namespace)
    if entity is None or entity.state != State.LIVE:
        state = "is not registered" if entity is None else f"is {entity.state}"
        raise LifecycleError(f"{namespace} {state}: there is nothing to delete")
    return entity


def undeletable_entities(namespace: Address, user: str, generation: Generation | str | None = None) -> QuerySet[Entity]:
    """The live entities in the namespace, itself among them, that this person may not delete; by address."""
    rules, entity, tables = resolve_generation(generation), live_namespace(namespace), grant_tables("user", user) or ()
    namespace_condition = requirement_condition(rules.deletion.namespace_requirement, FilterContext(tables, ["namespace"]))
    lacking = Q(kind="namespace") & ~namespace_condition
    inside = ~Q(kind="namespace") & ~_permitted(entity, tables, rules)
    return sorted_by_address(subtree_of(entity).filter(lacking | inside, state=State.LIVE))


def _begins(entity: Entity, tables: tuple[GrantTable, ...], rules: Generation) -> bool:
    is_met = requirement_condition(rules.deletion.namespace_requirement, FilterContext(tables, ["namespace"]))
    return Entity.objects.filter(is_met, pk=entity.pk).exists()


def _permitted(entity: Entity, tables: tuple[GrantTable, ...], rules: Generation) -> Q:
    """The entities in the namespace that may be deleted once the deletion has begun."""
    by_requirement: dict = {}
    for kind in (kind for step in deletion_steps() for kind in step):
        by_requirement.setdefault(rules.deletion.requirement_for(kind), []).append(kind)
    return reduce(or_, (Q(kind__in=kinds) & requirement_condition(requirement, FilterContext(tables, kinds, inside=entity))
                        for requirement, kinds in by_requirement.items()), NONE)


def _steps(entity: Entity, tables: tuple[GrantTable, ...], rules: Generation, begins: bool):
    rows = live_entities_inside(entity).order_by().values_list("kind").annotate(
        Count("pk"), permitted=Count("pk", filter=_permitted(entity, tables, rules)))
    counts = {kind: (live, permitted) for kind, live, permitted in rows}
    reached = begins
    for kinds in deletion_steps():
        present = tuple((kind, counts[kind][0]) for kind in kinds if kind in counts)
        live, permitted = (sum(counts[kind][place] for kind, _ in present) for place in (0, 1))
        outcome = _outcome(live, permitted, reached, rules)
        reached = reached and outcome != StepOutcome.STOPS
        gone = permitted if outcome in (StepOutcome.GOES, StepOutcome.PARTLY) else 0
        yield DeletionStep(present, live, live - permitted, gone, outcome)


def _outcome(live: int, permitted: int, reached: bool, rules: Generation) -> StepOutcome:
    if not live:
        return StepOutcome.EMPTY
    if not reached:
        return StepOutcome.NOT_REACHED
    if live == permitted:
        return StepOutcome.GOES
    return StepOutcome.STOPS if rules.deletion.on_undeletable == OnUndeletable.STOP else StepOutcome.PARTLY


def _verdict(found: Sequence[DeletionStep], begins: bool, goes: bool, rules: Generation) -> DeletionVerdict:
    if not begins:
        return DeletionVerdict.REFUSED
    if goes:
        return DeletionVerdict.COMPLETE
    if rules.deletion.on_undeletable == OnUndeletable.SKIP:
        return DeletionVerdict.PARTIAL
    return DeletionVerdict.INCONSISTENT if any(step.gone for step in found) else DeletionVerdict.STOPPED


def _gone(entity: Entity, tables: tuple[GrantTable, ...], rules: Generation, found: Sequence[DeletionStep],
          goes: bool) -> QuerySet:
    whole = [kind for step in found if step.outcome == StepOutcome.GOES for kind, _ in step.kinds]
    partly = [kind for step in found if step.outcome == StepOutcome.PARTLY for kind, _ in step.kinds]
    some = Q(kind__in=[*whole, "namespace"] if goes else whole)
    if partly:
        some |= Q(kind__in=partly) & _permitted(entity, tables, rules)
    return subtree_of(entity).filter(some, state=State.LIVE).order_by()


def _sentence(verdict: DeletionVerdict, who: str, namespace: Address, found: Sequence[DeletionStep], is_known: bool) -> str:
    gone, live = sum(step.gone for step in found), sum(step.live for step in found)
    all_of_it = quantity(live, "live entity", "live entities")
    match verdict:
        case DeletionVerdict.REFUSED if not is_known:
            return f"Nothing goes: {who} is not a known, active principal."
        case DeletionVerdict.REFUSED:
            return f"Nothing goes: {who} lacks what the deletion of {namespace} begins with, ADMIN on the namespace itself."
        case DeletionVerdict.COMPLETE:
            return f"All of it goes: {all_of_it} in {namespace}, and the namespace."
        case DeletionVerdict.PARTIAL:
            return (f"{gone:,} of {all_of_it} in {namespace} go; each of the other {live - gone:,} "
                    f"is reported as an error, and the namespace stands.")
    stop = next(step for step in found if step.outcome == StepOutcome.STOPS)
    where = f"it stops at the {step_title(stop.kinds)}, of which {stop.missing:,} may not be deleted"
    if verdict == DeletionVerdict.STOPPED:
        return f"Nothing goes: {where}, and {namespace} stands as it is."
    return (f"An inconsistent state: {where}. {gone:,} of {all_of_it} in {namespace} are gone by "
            f"then, {live - gone:,} remain, and the namespace stands.")


def step_title(kinds: Sequence[tuple[str, int]]) -> str:
    """`applications and programs`."""
    words = [KINDS[kind].plural for kind, _ in kinds]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _heirs(gone: QuerySet[Entity]) -> tuple[GhostHolders, ...]:
    """Who holds what on these entities. Two statements."""
    counts = {kind: _by_privilege(kind, gone) for kind in GRANT_TABLES}
    return tuple(
        GhostHolders(privilege, counts["user"][privilege][0], counts["group"][privilege][0],
              counts["user"][privilege][1] + counts["group"][privilege][1])
        for privilege in Privilege if any(counts[kind][privilege][1] for kind in counts))


def _by_privilege(kind: str, gone: QuerySet[Entity]) -> dict[Privilege, tuple[int, int]]:
    """(principals, grants) of one type of principal."""
    rows = _grants_on(kind, gone).values_list("permission_id").annotate(
        principals=Count(GRANT_TABLES[kind][1], distinct=True, filter=effective_grant_condition(kind)), grants=Count("pk"))
    return dict.fromkeys(Privilege, (0, 0)) | {privilege_of(permission): tuple(counts) for permission, *counts in rows}


def _principals(kind: str, gone: QuerySet[Entity]) -> int:
    return _grants_on(kind, gone).filter(effective_grant_condition(kind)).values(GRANT_TABLES[kind][1]).distinct().count()


def _first_grants(gone: QuerySet[Entity]) -> tuple[ChangeItem, ...]:
    """The first MAX_GHOSTS by address, then by principal. Two statements."""
    found = []
    for kind, name in NAME_COLUMNS.items():
        columns = ("content_object__kind", "content_object__key", name, "permission_id")
        rows = _grants_on(kind, gone).order_by(*columns).values_list(*columns)[:MAX_GHOSTS]
        found += [ChangeItem(f"{kind}:{principal}", Address(*place), privilege_of(permission))
                  for *place, principal, permission in rows]
    found.sort(key=lambda item: (item.address.kind, item.address.key, item.principal, list(Privilege).index(item.privilege)))
    return tuple(found[:MAX_GHOSTS])


def _grants_on(kind: str, gone: QuerySet[Entity]) -> QuerySet:
    return GRANT_TABLES[kind][0].objects.filter(content_object__in=gone.values("pk")).order_by()
