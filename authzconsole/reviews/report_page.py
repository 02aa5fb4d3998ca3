"""Write the report of a finished review: a page for readers without scripts, in the style of the evidence
about access.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from django.db.models import Q, QuerySet
from django.template.loader import render_to_string

from grants.models import privilege_of
from grants.models.reviews import (
    Answer,
    Campaign,
    ItemSource,
    Recurrence,
    ReviewerRule,
    ReviewItem,
    UnansweredRule,
)
from grants.reviews.evidence_lines import evidence_lines
from grants.reviews.finishing import gone_items, reason_without_plan
from grants.reviews.scope import parse_scope
from grants.reviews.selection import OPEN_ITEMS, REMOVED_ITEMS
from grants.validity import format_time

PAGE_NAME = "report.html"
# a page with more items is slow in a browser; the other files have all of them
MAX_ITEMS_OF_SECTION = 2_000
# the sections by figure: what changes access comes first
_SECTIONS = {
    "revoke": ("Revoke", Q(answer=Answer.REVOKE)),
    "shorten": ("Shorten", Q(answer=Answer.SHORTEN)),
    "open": ("Without an answer", OPEN_ITEMS),
    "keep": ("Keep", Q(answer=Answer.KEEP)),
    "removed": ("Removed since the review began, without an answer", REMOVED_ITEMS & Q(answer=Answer.OPEN)),
}


def write_report(
    file: TextIO, campaign: Campaign, summary: Mapping[str, Any], *, csv_name: str, gone_name: str
) -> None:
    """Write the report, one section after the other, so that only the items of one section are in memory.

    summary: from `campaign_summary`. csv_name, gone_name: the files that the report names for further items.
    """
    context = {
        "review": campaign,
        "summary": summary,
        "figures": campaign.figures,
        "csv_name": csv_name,
        "gone_name": gone_name,
    }
    file.write(
        render_to_string(
            "reviews/report/head.html",
            context
            | {
                "scope": str(parse_scope(campaign.scope)),
                "rule": ReviewerRule(campaign.reviewer_rule).label,
                "unanswered": UnansweredRule(campaign.unanswered).label,
                "recurrence": Recurrence(campaign.recurrence).label,
                "reason_without_plan": reason_without_plan(campaign),
            },
        )
    )
    for title, file_name, count, items in _sections(campaign, csv_name, gone_name):
        rows = [_row(item) for item in items.select_related("reviewer").order_by("pk")[:MAX_ITEMS_OF_SECTION]]
        file.write(
            render_to_string(
                "reviews/report/section.html",
                {
                    "title": title,
                    "count": count,
                    "rows": rows,
                    "left_out": max(0, count - MAX_ITEMS_OF_SECTION),
                    "file_name": file_name,
                },
            )
        )
    file.write(render_to_string("reviews/report/end.html", context))


def _sections(
    campaign: Campaign, csv_name: str, gone_name: str
) -> Iterator[tuple[str, str, int, QuerySet[ReviewItem]]]:
    """Yield the title, the file with all items, the number of items and the items of each section."""
    items = ReviewItem.objects.filter(campaign=campaign)
    for name, (title, condition) in _SECTIONS.items():
        yield title, csv_name, campaign.figures.get(name, 0), items.filter(condition)
    if campaign.previous_id:
        title = f"No longer exists since review {campaign.previous_id}, with the answer there"
        yield title, gone_name, campaign.figures.get("gone", 0), gone_items(campaign)


def _row(item: ReviewItem) -> dict[str, Any]:
    return {
        "principal": item.principal,
        "target": item.target,
        "is_membership": item.source == ItemSource.MEMBERSHIP,
        "privilege": privilege_of(item.permission_id).value if item.permission_id else "",
        "evidence": [line.text for line in evidence_lines(item)],
        "since": format_time(item.granted_at),
        "granted_by": item.granted_by,
        "reason": item.reason,
        "answer": Answer(item.answer).label if item.answer else "",
        "new_until": format_time(item.new_until),
        "comment": item.comment,
        "answered_by": item.answered_by,
        "answered_at": format_time(item.answered_at),
        # the account of a reviewer may have been removed
        "reviewer": getattr(item.reviewer, "username", "(removed account)")
        if item.reviewer_id
        else "administrators",
    }
