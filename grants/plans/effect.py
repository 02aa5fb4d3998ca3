"""Compute the effect of a plan: the counts stored with the plan, and the effect on each principal and each
entity.

`Plan.effect` stores the counts, so the cost of showing a plan does not depend on its size:

- grants, revokes: items that change something; already: items that change nothing.
- joins, leaves, activations, deactivations: items that change a membership or the status of a user.
- periods_removed: of the grants and joins, those that only remove the limits of an existing grant or
membership.
- principals: principals that gain or lose a grant or a membership, or change their status.
- planned: addresses that a grant registers as planned.
- stranded_none, stranded_one: live entities that lose administrators and have no or one active administrator
afterwards.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.contrib.auth.models import Group
from django.db.models import (
    Case,
    Count,
    DateTimeField,
    Exists,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from entities.vocabulary import Privilege
from grants.bulk_rows import chunks
from grants.models import (
    ACTIVATION_VERBS,
    GRANT_VERBS,
    GroupGrant,
    JournalLine,
    Plan,
    PlanItem,
    PlanVerb,
    User,
    UserGrant,
    privilege_of,
)
from grants.querysets import memberships
from grants.validity import VALIDITY_COLUMNS

Tally = dict[tuple[str, Privilege], int]
# by verb, the name of the count of its changing items in `Plan.effect`
VERB_COUNTS = {
    PlanVerb.GRANT: "grants",
    PlanVerb.REVOKE: "revokes",
    PlanVerb.JOIN: "joins",
    PlanVerb.LEAVE: "leaves",
    PlanVerb.ACTIVATE: "activations",
    PlanVerb.DEACTIVATE: "deactivations",
}
REMOVES_PERIOD = Q(changes_period=True, valid_from=None, valid_until=None)


@dataclass(frozen=True, slots=True)
class PrincipalEffect:
    """For one principal: on how many entities it gains and loses each privilege, by kind and privilege.

    members: the number of users in a group; None for a user.
    joins, leaves: the number of groups that a user joins and leaves. activation: `activate`, `deactivate` or
    empty.
    """

    principal: str
    gains: Tally = field(default_factory=dict)
    losses: Tally = field(default_factory=dict)
    members: int | None = None
    joins: int = 0
    leaves: int = 0
    activation: str = ""


def plan_counts(plan: Plan) -> dict[str, int]:
    """Return `Plan.effect` with all counts.

    Plans of older versions have no counts of memberships and removed periods.
    """
    return dict.fromkeys((*VERB_COUNTS.values(), "periods_removed"), 0) | plan.effect


def change_count(counts: dict[str, int]) -> int:
    """Return the number of items that change something."""
    return sum(counts[name] for name in VERB_COUNTS.values())


def changing_items(plan: Plan) -> QuerySet[PlanItem]:
    """Return the items that change something; of an applied plan, the items that changed something."""
    return plan.items.filter(is_noop=False)


def revision_before(plan: Plan) -> int:
    """Return the revision before a plan was applied. Runs up to one query."""
    stored = plan.effect.get("permissions") or {}
    if "revision" in stored:
        return stored["revision"]
    lines = JournalLine.objects.filter(revision__gt=plan.base_revision, revision__lte=plan.revision or 0)
    first = lines.filter(Q(detail=str(plan)) | Q(detail__startswith=f"{plan}:")).aggregate(Min("revision"))[
        "revision__min"
    ]
    return (plan.revision if first is None else first - 1) or 0


def mark_noop_items(plan: Plan, verbs: Collection[str]) -> None:
    """Mark the items that would change nothing now, such as grants that exist and revocations of grants that
    do not exist.

    An item that only changes the period of a grant or a membership gets the period before.
    verbs: those of the items. Runs at most seven statements.
    """
    user_grants = _grants_of_item(UserGrant, user__username=OuterRef("principal_name"))
    group_grants = _grants_of_item(GroupGrant, group__name=OuterRef("principal_name"))
    is_held = Q(principal_type="user") & Q(Exists(user_grants)) | Q(principal_type="group") & Q(
        Exists(group_grants)
    )
    if PlanVerb.GRANT in verbs:
        existing = {"user": user_grants, "group": group_grants}
        plan.items.filter(is_held, verb=PlanVerb.GRANT).update(**_period_columns(existing))
    if PlanVerb.REVOKE in verbs:
        plan.items.filter(verb=PlanVerb.REVOKE).update(is_noop=True)
        plan.items.filter(is_held, verb=PlanVerb.REVOKE).update(is_noop=False)
    members = memberships().filter(
        user__username=OuterRef("principal_name"), group__name=OuterRef("group_name")
    )
    is_member = Q(Exists(members))
    if PlanVerb.JOIN in verbs:
        plan.items.filter(is_member, verb=PlanVerb.JOIN).update(**_period_columns({"user": members}))
    is_active = Q(Exists(User.objects.filter(username=OuterRef("principal_name"), is_active=True)))
    for verb, condition in (
        (PlanVerb.LEAVE, ~is_member),
        (PlanVerb.ACTIVATE, is_active),
        (PlanVerb.DEACTIVATE, ~is_active),
    ):
        if verb in verbs:
            plan.items.filter(condition, verb=verb).update(is_noop=True)


def _period_columns(existing: Mapping[str, QuerySet]) -> dict:
    """Return the new values of items whose grant or membership exists: whether nothing changes, and the
    period before.

    existing: the subquery of the existing row, by type of the principal.
    """
    has_same_period = Q(pk__in=())
    for type_, rows in existing.items():
        same = rows.alias(**{f"{name}_key": _time_key(name) for name in VALIDITY_COLUMNS}).filter(
            **{f"{name}_key": _time_key(OuterRef(name)) for name in VALIDITY_COLUMNS}
        )
        has_same_period |= Q(principal_type=type_) & Q(Exists(same))
    return {
        "is_noop": Case(When(has_same_period, then=Value(True)), default=Value(False)),
        "changes_period": Case(When(has_same_period, then=Value(False)), default=Value(True)),
        **{
            f"old_{name}": Case(
                *(
                    When(principal_type=type_, then=Subquery(rows.values(name)[:1]))
                    for type_, rows in existing.items()
                ),
                default=None,
            )
            for name in VALIDITY_COLUMNS
        },
    }


def _time_key(time: str | OuterRef) -> Coalesce:
    """Return the time; for null, a time that no period has, because null does not equal null."""
    return Coalesce(time, Value(datetime(1, 1, 1, tzinfo=UTC), DateTimeField()))


def _grants_of_item(model: type[UserGrant | GroupGrant], **principal) -> QuerySet:
    """Return the subquery of the grants with the address, privilege and principal of the outer item."""
    return model.objects.filter(
        content_object__kind=OuterRef("kind"),
        content_object__key=OuterRef("key"),
        permission_id=OuterRef("permission_id"),
        **principal,
    )


def effect_counts(plan: Plan) -> dict[str, int]:
    """Return the counts for `Plan.effect`.

    A fixed number of statements, and one more for each thousand addresses that will be registered.
    """
    rows = (
        changing_items(plan)
        .order_by()
        .values_list("verb")
        .annotate(total=Count("pk"), removed=Count("pk", filter=REMOVES_PERIOD))
    )
    by_verb, periods_removed = {}, 0
    for verb, total, total_removed in rows:
        by_verb[verb] = total
        periods_removed += total_removed
    stranded = plan.strandings
    return {
        **{name: by_verb.get(verb, 0) for verb, name in VERB_COUNTS.items()},
        "periods_removed": periods_removed,
        "already": plan.items.filter(is_noop=True).count(),
        "principals": len(PrincipalEffects(plan)),
        "planned": _planned_count(plan),
        "stranded_none": stranded.filter(admins_left=0).count(),
        "stranded_one": stranded.filter(admins_left=1).count(),
    }


def _planned_count(plan: Plan) -> int:
    """Return the number of addresses, including containers, that are registered when the plan is applied."""
    registered = Entity.objects.filter(kind=OuterRef("kind"), key=OuterRef("key"))
    rows = (
        changing_items(plan)
        .filter(~Exists(registered), verb=PlanVerb.GRANT)
        .order_by()
        .values_list("kind", "key")
        .distinct()
    )
    total, containers = 0, set()
    for address in (Address(*row) for row in rows.iterator(chunk_size=2_000)):
        total += 1
        containers.update(address.ancestors)
    return total + sum(_uncounted_containers(chunk, rows) for chunk in chunks(containers))


def _uncounted_containers(containers: list[Address], counted: QuerySet) -> int:
    """Return how many of the containers are neither registered nor in `counted`."""
    unregistered = set(containers) - entities_at(containers).keys()
    counted_rows = counted.filter(key__in={address.key for address in unregistered}) if unregistered else ()
    return len(unregistered - {Address(*row) for row in counted_rows})


class PrincipalEffects(Sequence):
    """The `PrincipalEffect` of each principal that the plan changes: users first, by name.

    A slice is a list, so a Paginator can use this sequence.
    """

    def __init__(self, plan: Plan, total: int | None = None):
        """Create the sequence. total: its length, if it is known; otherwise it is counted when it is needed."""
        self._total = total
        self._items = changing_items(plan).order_by()
        self._names = self._items.values_list("principal_type", "principal_name").distinct()

    def __len__(self) -> int:
        return self._names.count() if self._total is None else self._total

    def __getitem__(self, positions: slice) -> list[PrincipalEffect]:
        names = self._names.order_by("-principal_type", "principal_name")[positions]
        effects = {name: PrincipalEffect(":".join(name)) for name in names}
        members = self._member_counts(effects)
        totals: dict[tuple[str, str], dict[str, int]] = {name: {} for name in effects}
        for principal_type, name, verb, kind, permission, total in self._tallies(effects):
            effect = effects[principal_type, name]
            if verb in GRANT_VERBS:
                tally = effect.gains if verb == PlanVerb.GRANT else effect.losses
                tally[kind, privilege_of(permission)] = total
            else:
                totals[principal_type, name][verb] = total
        return [
            PrincipalEffect(
                effect.principal,
                effect.gains,
                effect.losses,
                members.get(name),
                joins=totals[name].get(PlanVerb.JOIN, 0),
                leaves=totals[name].get(PlanVerb.LEAVE, 0),
                activation=next((verb.value for verb in ACTIVATION_VERBS if verb in totals[name]), ""),
            )
            for name, effect in effects.items()
        ]

    def _tallies(self, names) -> QuerySet:
        """Return the number of items of these principals by principal, verb, kind and permission."""
        is_listed = Q(pk__in=[])
        for principal_type in ("user", "group"):
            is_listed |= Q(
                principal_type=principal_type,
                principal_name__in=[name for type_, name in names if type_ == principal_type],
            )
        return (
            self._items.filter(is_listed)
            .values_list("principal_type", "principal_name", "verb", "kind", "permission_id")
            .annotate(Count("pk"))
        )

    @staticmethod
    def _member_counts(names) -> dict[tuple[str, str], int]:
        groups = Group.objects.filter(name__in=[name for kind, name in names if kind == "group"])
        return {
            ("group", name): total
            for name, total in groups.annotate(Count("user")).values_list("name", "user__count")
        }
