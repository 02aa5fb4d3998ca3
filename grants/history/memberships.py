"""Find the journal lines with which users joined or left a group."""

from django.db.models import Q

from grants.journal import current_revision
from grants.models import JournalLine
from grants.models.history import HistoryPosition, HistoryPrincipal, MembershipPeriod
from grants.policies.principals import group_text

ACTIONS = ("member-add", "member-remove")
# the lines that are not in the periods yet, which no index finds by group
MAX_NEW_LINES = 50_000


def latest_membership_lines(group: str, max_lines: int) -> list[JournalLine]:
    """Return the newest lines that began, changed or ended a membership in a group, newest first.

    Runs six queries. The periods have an index by group, and the journal has none; only the lines after the periods are
    searched.
    """
    periods = MembershipPeriod.objects.filter(
        group__in=HistoryPrincipal.objects.filter(type="group", name=group).values("pk")
    )
    revisions = {
        revision
        for column in ("from_revision", "until_revision")
        for revision in periods.exclude(**{column: None})
        .order_by(f"-{column}")
        .values_list(column, flat=True)[:max_lines]
    }
    known = HistoryPosition.objects.values_list("revision", flat=True).first() or 0
    new = JournalLine.objects.filter(
        Q(detail=group_text(group)) | Q(detail__endswith=f"; {group_text(group)}"),
        revision__gt=max(known, current_revision() - MAX_NEW_LINES),
        action__in=ACTIONS,
    )
    lines = JournalLine.objects.filter(revision__in=sorted(revisions)[-max_lines:])
    return [*new.order_by("-revision")[:max_lines], *lines.order_by("-revision")][:max_lines]
