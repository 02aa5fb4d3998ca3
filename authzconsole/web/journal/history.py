"""The latest journal lines of one entity or principal, for administrators and auditors."""

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.journal.rows import journal_row
from entities.models import Entity
from grants.journal_queries import journal_lines
from grants.policies.policy import Generation

MAX_LINES = 8


def history_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the section of an entity's page; None for ordinary accounts."""
    if not request.user.can_see_all:
        return None
    return latest_journal_lines(entity=str(entity))


def latest_journal_lines(**filters: str) -> dict:
    """Return the latest lines that match all filters, and the URL of the journal with the same filters. Runs one query."""
    lines = journal_lines(**filters)[:MAX_LINES]
    return {"lines": [journal_row(line) for line in lines], "url": reverse("journal", query=filters)}
