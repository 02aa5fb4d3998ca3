"""Conditions on periods for plans."""

from datetime import datetime

from django.db.models import Q


def not_over_condition(at: datetime) -> Q:
    """Return the condition that the period of a grant or a membership has not ended at this time.

    It may not have begun yet.
    """
    return Q(valid_until__isnull=True) | Q(valid_until__gt=at)
