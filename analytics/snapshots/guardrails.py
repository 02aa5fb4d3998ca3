"""The rows of guardrails in a snapshot: `analytics.tables.GUARDRAIL_TABLES`."""

from collections.abc import Iterator

from django.db.models import Case, CharField, F, QuerySet, Value, When
from django.db.models.functions import Coalesce, Concat

from analytics.tables import GUARDRAILS, UNEXPECTED, Table
from grants.guardrails.evaluation import unexpected_decisions
from grants.models import Form, GuardrailClause
from grants.querysets import principal_expression


def guardrail_rows(privilege: Case) -> Iterator[tuple[Table, tuple[QuerySet, ...]]]:
    """Yield each table with the querysets of its rows, with values in the order of the columns.

    privilege: the name of the privilege of `permission_id`.
    Decides the questions of all guardrails that expect a decision (see `unexpected_decisions` for the queries).
    """
    clauses = GuardrailClause.objects.order_by()
    yield (
        GUARDRAILS,
        (
            clauses.annotate(privilege_name=Coalesce(privilege, Value(""))).values_list(
                "guardrail__name",
                "guardrail__form",
                "guardrail__level",
                "side",
                "privilege_name",
                "kind",
                "key",
                Case(When(guardrail__form=Form.FORBID, then=F("guardrail__group_id"))),
                "guardrail__at_least",
            ),
        ),
    )
    names = [violation.guardrail for violation in unexpected_decisions()]
    subject = Case(
        When(guardrail__user__isnull=False, then=Concat(Value("user:"), F("guardrail__user__username"))),
        default=principal_expression("group", "guardrail__group__name"),
        output_field=CharField(),
    )
    rows = clauses.filter(guardrail__name__among=names).values_list(
        "guardrail__name", subject, Concat("kind", Value(":"), "key"), "guardrail__action"
    )
    yield UNEXPECTED, (rows,) if names else ()
