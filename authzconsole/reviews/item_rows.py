"""Write items of a review as JSON objects and as lines of CSV, for REST, downloads and bundles."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.results.export import without_formula
from grants.models import privilege_of
from grants.models.reviews import Campaign, ReviewItem

COLUMNS = (
    "item",
    "source",
    "principal",
    "entity",
    "privilege",
    "group",
    "state",
    "since",
    "granted_by",
    "reason",
    "valid_until",
    "ended",
    "redundant_through",
    "admins_left",
    "peers",
    "peer_holders",
    "peer_group",
    "reach",
    "last_used_on",
    "last_reviewed_at",
    "previous_answer",
    "new",
    "reviewer",
    "escalated",
    "answer",
    "new_until",
    "comment",
    "answered_by",
    "answered_at",
    "removed",
)
ROWS_PER_READ = 2_000


def item_as_json(item: ReviewItem) -> dict[str, Any]:
    """Return the members of an item. Load the items with `select_related("reviewer")`."""
    return {
        "item": item.pk,
        "source": str(item.source),
        "principal": item.principal,
        "entity": str(item.address) if item.kind else None,
        "privilege": privilege_of(item.permission_id).value if item.permission_id else None,
        "group": f"group:{item.group_name}" if item.group_name else None,
        "state": item.entity_state or None,
        "since": _time(item.granted_at),
        "granted_by": item.granted_by,
        "reason": item.reason,
        "valid_until": _time(item.valid_until),
        "ended": item.is_ended,
        "redundant_through": f"group:{item.redundant_through}" if item.redundant_through else None,
        "admins_left": item.admins_left,
        "peers": item.peers,
        "peer_holders": item.peer_holders,
        "peer_group": f"group:{item.peer_group}" if item.peer_group else None,
        "reach": item.reach,
        "last_used_on": _time(item.last_used_on),
        "last_reviewed_at": _time(item.last_reviewed_at),
        "previous_answer": item.previous_answer or None,
        "new": item.is_new,
        # the account of a reviewer may have been removed
        "reviewer": getattr(item.reviewer, "username", None) if item.reviewer_id else None,
        "escalated": item.escalated,
        "answer": item.answer or None,
        "new_until": _time(item.new_until),
        "comment": item.comment,
        "answered_by": item.answered_by or None,
        "answered_at": _time(item.answered_at),
        "removed": item.removal.value or None,
    }


def stream_items(items: QuerySet[ReviewItem]) -> Iterator[dict[str, Any]]:
    """Yield the items as JSON objects, sorted by number, in bounded memory."""
    for item in items.select_related("reviewer").order_by("pk").iterator(chunk_size=ROWS_PER_READ):
        yield item_as_json(item)


def json_lines(rows: Iterable[dict]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def csv_lines(rows: Iterable[dict]) -> Iterator[str]:
    """Yield the lines of a CSV file.

    Texts that a spreadsheet would read as a formula start with an apostrophe.
    """
    yield _csv_line(COLUMNS)
    for row in rows:
        yield _csv_line([_cell(row[column]) for column in COLUMNS])


def items_response(
    rows: Iterable[dict], campaign: Campaign, extension: str, media_type: str
) -> StreamingHttpResponse:
    """Return the response that streams the items as CSV or JSON Lines. extension: `csv` or `jsonl`."""
    lines = csv_lines(rows) if extension == "csv" else json_lines(rows)
    response = StreamingHttpResponse(lines, content_type=f"{media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="review-{campaign.pk}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _csv_line(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


def _cell(value: object) -> str:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return without_formula(text)


def _time(value: date | datetime | None) -> str | None:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    return value.isoformat() if value else None
