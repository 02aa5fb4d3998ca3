"""Write the evidence of a finished review: a signed bundle with all items, answers, reviewers and
plans, and a report for readers without scripts."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings
from django.db.models import Q, QuerySet
from django.template.loader import render_to_string
from django.utils import timezone

from analytics.folders import scratch_folder
from authzconsole.evidence.bundles import store_bundle
from authzconsole.evidence.files import STYLE
from authzconsole.reviews.item_rows import csv_lines, json_lines, stream_items
from grants.evidence import write_bundle
from grants.journal import current_head
from grants.models import Plan, privilege_of
from grants.models.reviews import (
    Answer,
    Campaign,
    Recurrence,
    ReviewerRule,
    ReviewItem,
    UnansweredRule,
)
from grants.reviews.evidence_lines import evidence_lines
from grants.reviews.finishing import gone_items, reason_without_plan
from grants.reviews.scope import parse_scope
from grants.reviews.selection import OPEN_ITEMS, REMOVED_ITEMS, with_principals
from grants.usage import first_day_of_use
from grants.validity import format_time

PAGE_NAME = "report.html"
# a page with more items is slow in a browser; the other files have all of them
MAX_ITEMS_OF_SECTION = 2_000
# the sections by figure: what changes access comes first
_SECTIONS = {
    "revoke": ("Revoke", Q(answer=Answer.REVOKE)),
    "shorten": ("Shorten", Q(answer=Answer.SHORTEN)),
    "open": ("Unanswered", OPEN_ITEMS),
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
    knows_use = first_day_of_use() is not None
    for title, file_name, count, items in _sections(campaign, csv_name, gone_name):
        rows = [
            _row(item, knows_use=knows_use)
            for item in with_principals(items).order_by("pk")[:MAX_ITEMS_OF_SECTION]
        ]
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


def _row(item: ReviewItem, *, knows_use: bool) -> dict[str, Any]:
    return {
        "principal": item.principal,
        "target": item.target,
        "is_membership": item.is_membership,
        "privilege": privilege_of(item.permission_id).value if item.permission_id else "",
        "evidence": [line.text for line in evidence_lines(item, knows_use=knows_use)],
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


CSV_NAME, JSON_NAME, GONE_NAME, SUMMARY_NAME = "items.csv", "items.jsonl", "gone.jsonl", "review.json"


def write_review_bundle(campaign: Campaign, *, attempt: int) -> tuple[str, str]:
    """Write the bundle into the storage. Return its path below SNAPSHOT_URI and its SHA-256 hash."""
    with scratch_folder(settings.TEMP_DIR) as name:
        folder = Path(name)
        summary = campaign_summary(campaign)
        files = {SUMMARY_NAME: folder / SUMMARY_NAME, PAGE_NAME: folder / PAGE_NAME, STYLE.name: STYLE}
        files[SUMMARY_NAME].write_text(json.dumps(summary, ensure_ascii=False, indent=2) + "\n", "utf-8")
        with files[PAGE_NAME].open("w", encoding="utf-8") as page:
            write_report(page, campaign, summary, csv_name=CSV_NAME, gone_name=GONE_NAME)
        items = ReviewItem.objects.filter(campaign=campaign)
        for file_name, lines in (
            (CSV_NAME, csv_lines(stream_items(items))),
            (JSON_NAME, json_lines(stream_items(items))),
            (GONE_NAME, json_lines(stream_items(gone_items(campaign)))),
        ):
            files[file_name] = folder / file_name
            with files[file_name].open("w", encoding="utf-8", newline="") as file:
                file.writelines(lines)
        bundle = folder / "bundle.zip"
        write_bundle(bundle, _manifest_contents(campaign), files)
        return store_bundle(bundle, "reviews", f"review-{campaign.pk}-{attempt}.zip")


def campaign_summary(campaign: Campaign) -> dict[str, Any]:
    """Return the campaign with its figures, reviewers and plans. Runs three queries."""
    shares = campaign.shares.select_related("reviewer").order_by("reviewer__username")
    return {
        "review": campaign.pk,
        "title": campaign.title,
        "description": campaign.description,
        "scope": campaign.scope,
        "reviewer_rule": campaign.reviewer_rule,
        "reviewer_group": campaign.reviewer_group,
        "escalation_group": campaign.escalation_group,
        "unanswered": campaign.unanswered,
        "created_by": campaign.created_by,
        "created_at": format_time(campaign.created_at),
        "opened_at": format_time(campaign.opened_at),
        "deadline": format_time(campaign.deadline),
        "finished_by": campaign.finished_by,
        "base_revision": campaign.base_revision,
        "previous": campaign.previous_id,
        "figures": campaign.figures,
        "reviewers": [
            {
                "reviewer": share.reviewer.username if share.reviewer else None,
                "items": share.item_count,
                "answered": share.answered_count,
                "removed": share.removed_count,
                "signed_off_at": format_time(share.signed_off_at) or None,
            }
            for share in shares
            if share.item_count
        ],
        "plans": list(
            Plan.objects.filter(review_link__campaign=campaign).order_by("pk").values_list("pk", flat=True)
        ),
    }


def _manifest_contents(campaign: Campaign) -> dict[str, Any]:
    head = current_head()
    return {
        "instance": settings.INSTANCE_NAME,
        "review": campaign.pk,
        "title": campaign.title,
        "figures": campaign.figures,
        "base_revision": campaign.base_revision,
        "created_at": format_time(timezone.now()),
        "finished_by": campaign.finished_by,
        "journal_head": {"revision": head.revision, "hash": head.hash, "at": format_time(head.at)},
    }
