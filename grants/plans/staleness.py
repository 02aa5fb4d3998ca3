"""Decide from the journal whether a plan is stale, because data on which it depends has changed.

A journal line after the base revision of the plan makes the plan stale in any of these cases:

- The line is about an entity of the plan. A plan with the breadth `namespaces` also depends on everything in
  the namespaces of its entities, and a plan over the whole instance also depends on every entity that becomes
  live.
- The line is about a principal that the plan watches.
- The line changes a principal of the plan, such as its state or its members.
"""

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Left, Length, StrIndex, Substr
from django.db.models.lookups import Exact, GreaterThan, LessThan

from entities.address import instance_address, kinds_inside
from grants.journal_queries import relevant_lines_since
from grants.models import JournalLine, Plan, PlanBreadth, PlanItem
from grants.policies.principals import ROLE_PREFIX


def invalidating_line(plan: Plan) -> JournalLine | None:
    """Return the first line that makes the plan stale; None if the plan can be applied. Runs one query."""
    return _invalidating_lines(plan).order_by("revision").first()


def line_summary(line: JournalLine) -> str:
    """Return a string such as `revision 12 (grant READ on dataset:sales.orders of user:alice, by admin)`."""
    action = " ".join(filter(None, [line.action, line.privilege]))
    entity = f" on {line.entity}" if line.entity else ""
    principal = f" of {line.principal}" if line.principal else ""
    return f"revision {line.revision:,} ({action}{entity}{principal}, by {line.actor})"


def _invalidating_lines(plan: Plan) -> QuerySet[JournalLine]:
    lines = relevant_lines_since(plan.base_revision)
    lines = _split_at_colon(lines, "entity", "kind", "key")
    lines = _split_at_colon(lines, "principal", "written_type", "written_name")
    is_role = Q(principal__startswith=ROLE_PREFIX)
    lines = lines.annotate(
        principal_type=Case(When(is_role, then=Value("group")), default="written_type"),
        principal_name=Case(When(is_role, then="principal"), default="written_name"),
    )
    changes_entity = _has_item(plan, kind=OuterRef("kind"), key=OuterRef("key"))
    if plan.breadth == PlanBreadth.NAMESPACES:
        lines = lines.annotate(dot=StrIndex("key", Value("."))).annotate(
            namespace=Case(When(dot=0, then=F("key")), default=Left("key", F("dot") - 1))
        )
        changes_entity |= Q(kind__in=["namespace", *kinds_inside("namespace")]) & _has_item(
            plan, namespace=OuterRef("namespace")
        )
    if plan.recipe.get("within") == str(instance_address()):
        # the plan covers all entities, so it would also contain an entity that became live since then
        changes_entity |= Q(action__in=("register", "recreate"))
    changes_principal = _has_item(
        plan, principal_type=OuterRef("principal_type"), principal_name=OuterRef("principal_name")
    )
    # the groups of memberships: only their removal or new name matters, not their other members
    changes_principal |= Q(principal_type="group") & _has_item(plan, group_name=OuterRef("principal_name"))
    # in lines about members, `detail` ends in the group or role; a period before it contains neither prefix
    group, role = (StrIndex(OuterRef("detail"), Value(prefix)) for prefix in ("group:", ROLE_PREFIX))
    is_role = GreaterThan(role, 0) & (Exact(group, 0) | LessThan(role, group))
    start = Case(When(is_role, then=role), default=group + len("group:"))
    changes_group = _has_item(plan, principal_type="group", principal_name=Substr(OuterRef("detail"), start))
    return lines.filter(
        (~Q(entity="") & changes_entity)
        | Q(principal__in=plan.watches)
        | (Q(entity="") & ~Q(principal="") & changes_principal)
        | (Q(action__in=("member-add", "member-remove")) & changes_group)
    )


def _has_item(plan: Plan, **conditions) -> Q:
    """Return the condition that the plan has an item with these fields."""
    return Q(Exists(PlanItem.objects.filter(plan=plan, **conditions)))


def _split_at_colon(lines: QuerySet, column: str, before: str, after: str) -> QuerySet:
    """Annotate the parts of a column before and after its first colon, with these names."""
    colon = f"{column}_colon"
    return lines.annotate(**{colon: StrIndex(column, Value(":"))}).annotate(
        **{
            before: Case(When(**{colon: 0}, then=Value("")), default=Left(column, F(colon) - 1)),
            after: Substr(column, F(colon) + 1, Length(column)),
        }
    )
