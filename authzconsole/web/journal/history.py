"""The latest journal lines of one entity or principal, for administrators and auditors."""

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.journal.rows import journal_line_shown
from entities.models import Entity
from grants.journal_queries import journal_lines
from grants.policies.policy import Generation

MAX_LINES = 8


def history_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    if not request.user.can_see_all:
        return None
    return history_of(entity=str(entity))


def history_of(**asked: str) -> dict:
    """The latest lines of which all of this is true, and where all of them stand. One query."""
    lines = journal_lines(**asked)[:MAX_LINES]
    return {"lines": [journal_line_shown(line) for line in lines], "url": reverse("journal", query=asked)}
