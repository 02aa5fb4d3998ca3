"""The latest journal lines of one entity or principal, for accounts that can read the journal."""

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.journal.rows import journal_rows
from entities.models import Entity
from grants.authority.rights import can_read_history
from grants.journal_queries import journal_lines
from grants.policies.policy import Generation

MAX_LINES = 8


def history_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the section of an entity's page; None for accounts that cannot read the journal."""
    if not can_read_history(request.user, entity):
        return None
    section = latest_journal_lines(request, entity=str(entity))
    if request.user.can_read_journal:
        return section | {"has_pages": True}
    # a data steward cannot open the pages of the journal and of principals
    for row in section["lines"]:
        row["plan_url"] = ""
    return section | {"is_plain": True}


def latest_journal_lines(request: HttpRequest, **filters: str) -> dict:
    """Return the latest lines that match all filters, and the URL of the journal with the same filters. Runs
    one query.

    A page that shows an earlier state does not list later lines.
    """
    lines = journal_lines(**filters)
    if past := getattr(request, "past", None):
        lines = lines.filter(place__lte=past.revision)
    lines = lines[:MAX_LINES]
    return {"lines": journal_rows(lines), "url": reverse("journal", query=filters)}
