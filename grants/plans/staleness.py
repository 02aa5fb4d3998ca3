"""Whether something changed that a plan depends on, read from the journal.

A line after the plan's base concerns it where it is of an entity that the plan changes (of a plan over namespaces: of
anything in a namespace in which it changes something; of one over the instance: of anything that came to life), of a
principal that it watches, or where it says of a principal of the plan who it is: its state, its members.
"""

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Left, Length, StrIndex, Substr

from entities.address import ancestor_kinds, instance_address
from entities.vocabulary import KINDS
from grants.models import JournalLine, Plan, PlanBreadth, PlanItem

# what changes nobody's answer
WITHOUT_CONCERN = ("describe", "role-set", "password-set", "token-add", "token-revoke", "generation-activate", "plan-apply")


def stale_line(plan: Plan) -> JournalLine | None:
    """The first line since the plan was made that concerns it; None where it may be applied. One query."""
    return _concerning(plan).order_by("revision").first()


def first_relevant_line_since(revision: int) -> JournalLine | None:
    """The first line after a revision that may change somebody's answer. One query."""
    lines = JournalLine.objects.filter(revision__gt=revision).exclude(action__in=WITHOUT_CONCERN)
    return lines.order_by("revision").first()


def line_summary(line: JournalLine) -> str:
    what = " ".join(filter(None, [line.action, line.privilege]))
    where = f" on {line.entity}" if line.entity else ""
    who = f" of {line.principal}" if line.principal else ""
    return f"line {line.revision:,} ({what}{where}{who}, by {line.actor})"


def _concerning(plan: Plan) -> QuerySet[JournalLine]:
    lines = JournalLine.objects.filter(revision__gt=plan.base_revision).exclude(action__in=WITHOUT_CONCERN)
    lines = _split(_split(lines, "entity", "kind", "key"), "principal", "principal_type", "principal_name")
    touched = _items(plan, kind=OuterRef("kind"), key=OuterRef("key"))
    if plan.breadth == PlanBreadth.NAMESPACES:
        lines = lines.annotate(dot=StrIndex("key", Value("."))).annotate(
            namespace=Case(When(dot=0, then=F("key")), default=Left("key", F("dot") - 1)))
        touched |= Q(kind__in=_kinds_in_namespaces()) & _items(plan, namespace=OuterRef("namespace"))
    if plan.recipe.get("within") == str(instance_address()):
        # made over everything: what came to life since, in whichever namespace, would have been in it
        touched |= Q(action__in=("register", "recreate"))
    of_the_principal = _items(plan, principal_type=OuterRef("principal_type"), principal_name=OuterRef("principal_name"))
    of_its_group = _items(plan, principal_type="group", principal_name=Substr(OuterRef("detail"), len("group:") + 1))
    return lines.filter(
        (~Q(entity="") & touched) | Q(principal__in=plan.watches) | (Q(entity="") & of_the_principal)
        | (Q(action__in=("member-add", "member-remove")) & of_its_group))


def _items(plan: Plan, **where) -> Q:
    return Q(Exists(PlanItem.objects.filter(plan=plan, **where)))


def _split(lines: QuerySet, column: str, before: str, after: str) -> QuerySet:
    """Annotate what stands before and after the first colon of a column."""
    colon = f"{column}_colon"
    return lines.annotate(**{colon: StrIndex(column, Value(":"))}).annotate(**{
        before: Case(When(**{colon: 0}, then=Value("")), default=Left(column, F(colon) - 1)),
        after: Substr(column, F(colon) + 1, Length(column)),
    })


def _kinds_in_namespaces() -> list[str]:
    return [kind for kind in KINDS if kind == "namespace" or "namespace" in ancestor_kinds(kind)]
