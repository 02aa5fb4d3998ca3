"""Write the evidence of a finished review: a signed bundle with all items, answers, reviewers and plans."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from analytics.folders import scratch_folder
from authzconsole.evidence.bundles import store_bundle
from authzconsole.evidence.files import STYLE
from authzconsole.reviews.item_rows import csv_lines, json_lines, stream_items
from authzconsole.reviews.report_page import PAGE_NAME, write_report
from grants.evidence import write_bundle
from grants.journal import current_head
from grants.models import Plan
from grants.models.reviews import Campaign, ReviewItem
from grants.reviews.finishing import gone_items
from grants.validity import format_time

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
