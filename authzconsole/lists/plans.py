"""The lists about plans: plans, their items, the principals that they affect, and what they change and do not
keep.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from django.db.models import QuerySet

from authzconsole.common import output
from authzconsole.common.fields import Choice, QuerySerializer
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, ShownPeriodSerializer
from authzconsole.lists.base import List, NumberedList
from authzconsole.lists.grants import PRIVILEGES
from grants.effects.effect import RowFilter
from grants.models import GRANT_VERBS, Plan, PlanItem, PlanState, PlanVerb
from grants.plans.counts import PrincipalEffects, Tally, plan_counts
from grants.plans.create import PlanOrigin
from grants.plans.regrants.kept_not import kept_not_of_plan
from grants.plans.staleness import invalidating_line, line_summary
from grants.plans.stranding import stranded_entities
from grants.roles.capabilities import Capability

# how many stranded entities a plan or a dry run lists
MAX_STRANDED = 50
ORIGINS = tuple(origin.value for origin in PlanOrigin)
RECIPE_EXAMPLE = {
    "namespace": "namespace:logistics",
    "user": "sofia.lindqvist",
    "generation": "final",
    "principal": "user:sofia.lindqvist",
}


class PlanEffectSerializer(output.Output):
    """The changes of the plan, in numbers. For an applied plan, the changes that were made."""

    users = output.Integer(help_text="Users that the plan adds.")
    groups = output.Integer(help_text="Groups and roles that the plan adds.")
    removals = output.Integer(help_text="Groups and roles that the plan removes.")
    grants = output.Integer(example=3, help_text="Grants that the plan adds.")
    revokes = output.Integer(help_text="Grants that the plan revokes.")
    joins = output.Integer(help_text="Memberships that the plan adds.")
    leaves = output.Integer(help_text="Memberships that the plan removes.")
    activations = output.Integer(help_text="Users that the plan activates.")
    deactivations = output.Integer(help_text="Users that the plan deactivates.")
    registrations = output.Integer(help_text="New entities that the plan makes live.")
    recreations = output.Integer(help_text="Deleted entities that the plan makes live again.")
    deletions = output.Integer(help_text="Entities that the plan deletes, with their contents.")
    periods_removed = output.Integer(
        help_text="Existing grants and memberships that lose their period. `grants` and `joins` include them."
    )
    already = output.Integer(help_text="Items that change nothing.")
    principals = output.Integer(
        example=1, help_text="Users and groups with changed direct grants, memberships or status."
    )
    planned = output.Integer(help_text="Addresses that a grant registers as planned.")
    stranded_none = output.Integer(help_text="Live entities without an active administrator afterwards.")
    stranded_one = output.Integer(help_text="Live entities with one active administrator afterwards.")
    permissions = output.Record(
        required=False, help_text="Of an applied plan: the totals of its effect on permissions."
    )


class StrandedSerializer(output.Output):
    entity = output.Text(source="address")
    admins = output.Integer(
        source="admin_count", help_text="The number of active ADMIN holders afterwards: 0 or 1."
    )


class PlanSerializer(output.Output):
    number = output.Integer(source="pk")
    title = output.Text(example="Let user:sofia.lindqvist delete namespace:logistics (final)")
    origin = output.Text(
        example="readiness", help_text=f"The source of the plan: one of {', '.join(ORIGINS)}."
    )
    recipe = output.Record(
        example=RECIPE_EXAMPLE,
        help_text="The parameters of the source. The plan can be renewed with them.",
    )
    state = output.Choice(PlanState.values)
    base_revision = output.Integer(example=812, help_text="The revision that the plan is based on.")
    made_by = output.Text()
    made_at = output.Time()
    decided_by = output.Text(help_text="The account that applied or discarded it; otherwise empty.")
    decided_at = output.Time(allow_null=True)
    reason = output.Text(example="")
    revision = output.Integer(allow_null=True, help_text="The revision after the plan was applied.")
    effect = PlanEffectSerializer(get=plan_counts)
    inverse_of = output.Integer(
        source="inverse_of_id", allow_null=True, help_text="The plan that this plan undoes."
    )
    renewal_of = output.Integer(
        source="renewal_of_id", allow_null=True, help_text="The plan that this plan replaces."
    )


def _stale(plan: Plan) -> str:
    line = invalidating_line(plan) if plan.is_proposed else None
    return line_summary(line) if line else ""


class PlanDetailSerializer(PlanSerializer):
    stale = output.Text(
        get=_stale,
        help_text="The change that makes the plan stale, so that it cannot be applied; otherwise empty.",
    )
    stranded = StrandedSerializer(
        many=True,
        get=lambda plan: stranded_entities(plan, max_rows=MAX_STRANDED),
        example=[],
        help_text=f"The first {MAX_STRANDED} entities that the plan strands.",
    )


class PlanFilters(QuerySerializer):
    state = Choice(
        choices=PlanState.values,
    )
    origin = Choice(
        choices=ORIGINS,
    )


class Plans(List):
    """All plans, newest first."""

    name = "plans"
    output = PlanSerializer
    filter_fields = PlanFilters
    order = ("-pk",)
    readers = (Capability.READ_ALL,)

    def select(self) -> QuerySet[Plan]:
        return Plan.objects.filter(**self.equal(state="state", origin="origin"))


class PlanItemSerializer(output.Output):
    position = output.Integer(example=1)
    verb = output.Choice(PlanVerb.values)
    principal = output.Text(
        get=lambda item: item.principal if item.principal_name else None,
        allow_null=True,
        example="user:sofia.lindqvist",
        help_text="Null if the item changes the state of an entity.",
    )
    entity = output.Text(
        get=lambda item: item.address if item.kind else None,
        allow_null=True,
        example="dataset:logistics.tracking.events",
        help_text="Null unless the item grants, revokes or changes the state of an entity.",
    )
    privilege = output.Choice(
        PRIVILEGES,
        get=lambda item: item.privilege if item.verb in GRANT_VERBS else None,
        allow_null=True,
        example="ADMIN",
        help_text="Null unless the item grants or revokes.",
    )
    group = output.Text(
        source="group_name",
        allow_null=True,
        help_text="The group that a user joins or leaves, or the role that also a group does; otherwise null.",
    )
    already = output.Boolean(source="is_noop", help_text="Whether the item changes nothing.")
    changes_period = output.Boolean(
        help_text="Whether the item only changes the period of an existing grant or membership."
    )
    valid_from, valid_until = VALID_FROM, VALID_UNTIL
    before = ShownPeriodSerializer(source="validity_before", help_text="The period before the change.")


class PlanItems(List):
    """The items of a plan, the subject, in the order in which they are applied."""

    name = "plan-items"
    output = PlanItemSerializer
    order = ("position",)
    readers = (Capability.READ_ALL,)

    def identity(self) -> list:
        return [self.name, self.subject.pk]

    def select(self) -> QuerySet[PlanItem]:
        return self.subject.items.all()


class TallySerializer(output.Output):
    privilege = output.Choice(PRIVILEGES, example="ADMIN")
    kind = output.Text()
    entities = output.Integer(example=3)


def _counts(tally: Tally) -> list[dict]:
    return [
        {"privilege": privilege, "kind": kind, "entities": count}
        for (kind, privilege), count in sorted(tally.items())
    ]


class PlanPrincipalSerializer(output.Output):
    principal = output.Text()
    members = output.Integer(allow_null=True, help_text="The number of members, for a group.")
    gains = TallySerializer(many=True, get=lambda effect: _counts(effect.gains))
    losses = TallySerializer(many=True, get=lambda effect: _counts(effect.losses), example=[])
    joins = output.Integer(help_text="The number of groups that a user joins.")
    leaves = output.Integer(help_text="The number of groups that a user leaves.")
    activation = output.Choice(
        ["activate", "deactivate"], allow_null=True, help_text="Whether the status of a user changes."
    )


class PlanPrincipals(NumberedList):
    """The principals that a plan, the subject, affects: users first, then groups, by name."""

    name = "plan-principals"
    output = PlanPrincipalSerializer
    readers = (Capability.READ_ALL,)
    identity = PlanItems.identity

    def slice(self, first: int, end: int) -> Sequence:
        return PrincipalEffects(self.subject)[first:end]


class KeptNotSerializer(output.Output):
    user = output.Text()
    entity = output.Text()
    operation = output.Text()
    why = output.Text(
        example="Every way to keep it gives more: READ on dataset:sales.orders would also give read on dataset:sales.orders.",
        help_text="Why the plan does not keep it, as a sentence.",
    )


class KeptNotRows(NumberedList):
    """What a plan that keeps permissions across generations, the subject, does not keep.

    Only the namespaces of the rows up to the page are read.
    """

    name = "kept-not"
    output = KeptNotSerializer
    readers = (Capability.READ_ALL,)
    identity = PlanItems.identity

    def slice(self, first: int, end: int) -> Sequence:
        return list(islice(kept_not_of_plan(self.subject, first), end - first))

    @property
    def file_name(self) -> str:
        return f"plan-{self.subject.pk}-kept-not"

    def all_rows(self) -> Iterator:
        return iter(kept_not_of_plan(self.subject))


class EffectRowSerializer(output.Output):
    user = output.Text()
    entity = output.Text()
    operation = output.Text()
    before = output.Boolean()
    after = output.Boolean()
    intended = output.Boolean()


class EffectRows(List):
    """The changed decisions of an effect, the subject. plan: the number of the plan; None for other changes.

    Only files have all of them.
    """

    name = "effect"
    output = EffectRowSerializer
    readers = (Capability.READ_ALL,)

    @property
    def file_name(self) -> str:
        plan = self.filters.get("plan")
        return f"plan-{plan}-effect" if plan else self.name

    def all_rows(self) -> Iterator:
        return iter(self.subject.rows(self.filters.get("where", RowFilter())))

    def file_rows(self) -> Iterator[dict]:
        return (row._asdict() for row in self.all_rows())
