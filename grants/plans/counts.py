"""Read the counts of a plan: those stored with the plan, and those of each principal.

`Plan.effect` stores the counts, so the cost of showing a plan does not depend on its size:

- grants, revokes: items that change something; already: items that change nothing.
- users, groups, removals: items that add a user, or add or remove a group.
- registrations, recreations, deletions: items that make an entity live, make it live again, or delete it.
- joins, leaves, activations, deactivations: items that change a membership or the status of a user.
- periods_removed: of the grants and joins, those that only remove the limits of an existing grant or
membership.
- principals: principals that gain or lose a grant or a membership, or change their status.
- planned: addresses that a grant registers as planned.
- stranded_none, stranded_one: live entities that lose administrators and have no or one active administrator
afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import Group
from django.db.models import Count, Min, Q, QuerySet

from entities.vocabulary import Privilege
from grants.models import (
    STATE_VERBS,
    JournalLine,
    Plan,
    PlanItem,
    PlanVerb,
    privilege_of,
)
from grants.policies.principals import principal_text

Tally = dict[tuple[str, Privilege], int]
# by verb, the name of the count of its changing items in `Plan.effect`
VERB_COUNTS: dict[str, str] = {
    PlanVerb.ADD_USER: "users",
    PlanVerb.ADD: "groups",
    PlanVerb.GRANT: "grants",
    PlanVerb.REVOKE: "revokes",
    PlanVerb.JOIN: "joins",
    PlanVerb.LEAVE: "leaves",
    PlanVerb.ACTIVATE: "activations",
    PlanVerb.DEACTIVATE: "deactivations",
    PlanVerb.REMOVE: "removals",
    PlanVerb.REGISTER: "registrations",
    PlanVerb.RECREATE: "recreations",
    PlanVerb.DELETE: "deletions",
}


@dataclass(slots=True)
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

    Plans of older versions have no counts of memberships, removed periods and groups.
    """
    return dict.fromkeys((*VERB_COUNTS.values(), "periods_removed"), 0) | plan.effect


def change_count(counts: dict[str, int]) -> int:
    """Return the number of items that change something."""
    return sum(counts.get(name, 0) for name in VERB_COUNTS.values())


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


class PrincipalEffects(Sequence):
    """The `PrincipalEffect` of each principal that the plan changes: users first, by name.

    A slice is a list, so a Paginator can use this sequence.
    """

    def __init__(self, plan: Plan, total: int | None = None):
        """Create the sequence. total: its length, if it is known; otherwise it is counted when it is needed."""
        self._total = total
        self._items = changing_items(plan).exclude(verb__in=STATE_VERBS).order_by()
        self._names = self._items.values_list("principal_type", "principal_name").distinct()

    def __len__(self) -> int:
        return self._names.count() if self._total is None else self._total

    def __getitem__(self, positions: slice) -> list[PrincipalEffect]:
        names = self._names.order_by("-principal_type", "principal_name")[positions]
        members = self._member_counts(names)
        effects = {name: PrincipalEffect(principal_text(*name), members=members.get(name)) for name in names}
        for principal_type, name, verb, kind, permission, total in self._tallies(effects):
            effect = effects[principal_type, name]
            match verb:
                case PlanVerb.GRANT:
                    effect.gains[kind, privilege_of(permission)] = total
                case PlanVerb.REVOKE:
                    effect.losses[kind, privilege_of(permission)] = total
                case PlanVerb.JOIN:
                    effect.joins = total
                case PlanVerb.LEAVE:
                    effect.leaves = total
                case PlanVerb.ADD | PlanVerb.ADD_USER | PlanVerb.REMOVE:
                    # a new or removed principal has nothing else than its grants, which are counted
                    pass
                case _:
                    effect.activation = verb
        return list(effects.values())

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
