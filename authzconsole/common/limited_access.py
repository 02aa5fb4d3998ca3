"""The lists of grants and memberships with a period: their conditions, numbers and URLs."""

from datetime import timedelta
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from entities.vocabulary import quantity
from grants.plans.sources.expired import PeriodScope

SOON = timedelta(days=7)
MAX_COUNTED = 1_000
SHOWN = {
    "soon": "Ending within 7 days",
    "limited": "All with an end",
    "future": "Not begun",
    "expired": "Expired",
}


def count_text(total: int, singular: str, plural: str) -> str:
    """Return a sentence about a number, such as `Over 1,000 requests wait` above MAX_COUNTED."""
    return f"Over {MAX_COUNTED:,} {plural}" if total > MAX_COUNTED else quantity(total, singular, plural)


def period_query(show: str) -> tuple[Q, str]:
    """Return the condition of a list of SHOWN, and the column by which it is sorted; a leading `-` means
    latest first.
    """
    now = timezone.now()
    match show:
        case "future":
            return Q(valid_from__gt=now), "valid_from"
        case "expired":
            return Q(valid_until__lte=now), "-valid_until"
        case "limited":
            return Q(valid_until__gt=now), "valid_until"
    return Q(valid_until__gt=now, valid_until__lte=now + SOON), "valid_until"


def counted_rows(show: str, scope: PeriodScope | None = None) -> int:
    """Return how many rows a list has; at most one more than MAX_COUNTED. Runs one query."""
    first, *others = (
        rows.order_by().values("pk") for rows in (scope or PeriodScope()).rows(period_query(show)[0]).values()
    )
    return (first.union(*others, all=True) if others else first)[: MAX_COUNTED + 1].count()


def expired_link(scope: PeriodScope) -> dict:
    """Return the number of expired grants and memberships, and the URL of their list. Runs one query."""
    place = {"principal": scope.principal, "within": str(scope.within or "")}
    query = urlencode({"show": "expired"} | {name: text for name, text in place.items() if text}, safe=":")
    return {"total": counted_rows("expired", scope), "url": f"{reverse('limited-access')}?{query}"}
