"""Write items of a review as JSON objects and as lines of CSV, for REST, downloads and bundles."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.results.export import DOWNLOAD_FORMATS, without_formula
from authzconsole.common import output
from grants.models import privilege_of
from grants.models.reviews import Campaign, ItemSource, Removal, ReviewItem
from grants.policies.principals import group_text
from grants.reviews.selection import with_principals

ROWS_PER_READ = 2_000


def _group(column: str) -> Callable[[ReviewItem], str | None]:
    """Return a function that reads a column with the name of a group in written form."""
    return lambda item: group_text(name) if (name := getattr(item, column)) else None


class ReviewItemSerializer(output.Output):
    """An item. Load the items with `with_principals`."""

    item = output.Integer(source="pk", example=812, help_text="The number of the item.")
    source = output.Choice(choices=ItemSource.values)  # type: ignore[assignment]
    principal = output.Text(example="user:alice")
    entity = output.Text(
        get=lambda item: item.address if item.kind else None, example="dataset:sales.orders", allow_null=True
    )
    privilege = output.Text(
        get=lambda item: privilege_of(item.permission_id) if item.permission_id else None,
        example="READ",
        allow_null=True,
    )
    group = output.Text(
        get=_group("group_name"), allow_null=True, help_text="The group or role of a membership."
    )
    state = output.Text(
        source="entity_state", example="live", allow_null=True, help_text="The state of the address."
    )
    since = output.Time(
        timespec="seconds", source="granted_at", example="2026-03-01T08:00:00Z", allow_null=True
    )
    granted_by = output.Text(example="admin")
    reason = output.Text(example="quarterly close")
    valid_until = output.Time(timespec="seconds", allow_null=True)
    ended = output.Boolean(
        source="is_ended",
        help_text="Whether the period was over when the items were prepared. Revoking such an item "
        "only removes the entry.",
    )
    redundant_through = output.Text(
        get=_group("redundant_through"),
        example="group:analysts",
        allow_null=True,
        help_text="A group that gives the user the same.",
    )
    admins_left = output.Integer(
        allow_null=True, help_text="The ADMIN holders that revoking would leave, if fewer than two."
    )
    peers = output.Integer(
        example=12, help_text="The other members of `peer_group`; of a group in a role, all its active ones."
    )
    peer_holders = output.Integer(example=1, help_text="Those of them who hold the same directly.")
    peer_group = output.Text(get=_group("peer_group"), example="group:analysts", allow_null=True)
    reach = output.Integer(
        help_text="Of a grant, the active members of the group; of a membership, the grants of the group or role."
    )
    last_used_on = output.Date(example="2026-11-02", allow_null=True)
    last_reviewed_at = output.Time(timespec="seconds", allow_null=True)
    previous_answer = output.Text(allow_null=True)
    new = output.Boolean(source="is_new")
    reviewer = output.Text(
        get=lambda item: getattr(item.reviewer, "username", None) if item.reviewer_id else None,
        example="carol",
        allow_null=True,
        help_text="Null for administrators.",
    )
    escalated = output.Boolean()
    answer = output.Text(allow_null=True)
    new_until = output.Time(timespec="seconds", allow_null=True)
    comment = output.Text()
    answered_by = output.Text(allow_null=True)
    answered_at = output.Time(timespec="seconds", allow_null=True)
    removed = output.Choice(
        source="removal.value",
        choices=[value for value in Removal.values if value],
        allow_null=True,
        help_text=(
            "What happened since the review began: the grant or membership was revoked, or the entity deleted. The item needs no "
            "answer."
        ),
    )
    active = output.Boolean(
        source="is_principal_active",
        example=True,
        allow_null=True,
        help_text="Whether the user is active; null of a group and of a removed user.",
    )


COLUMNS = tuple(ReviewItemSerializer().fields)


def stream_items(items: QuerySet[ReviewItem]) -> Iterator[dict[str, Any]]:
    """Yield the items as JSON objects, sorted by number, in bounded memory."""
    for item in with_principals(items).order_by("pk").iterator(chunk_size=ROWS_PER_READ):
        yield ReviewItemSerializer.data_of(item)


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


def items_response(rows: Iterable[dict], campaign: Campaign, extension: str) -> StreamingHttpResponse:
    """Return the response that streams the items as CSV or JSON Lines. extension: `csv` or `jsonl`."""
    lines = csv_lines(rows) if extension == "csv" else json_lines(rows)
    media_type = DOWNLOAD_FORMATS[f".{extension}"].media_type
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
