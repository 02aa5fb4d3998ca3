"""The latest journal lines of one entity or principal, for administrators and auditors."""

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.places import address_url, principal_named
from entities.models import Entity
from grants.models import JournalLine
from grants.policies.policy import Generation
from grants.selectors import journal_lines

MOST_LINES = 8


def history_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    if not request.user.may_see_all:
        return None
    return history_of(entity=str(entity))


def history_of(**asked: str) -> dict:
    """The latest lines of which all of this is true, and where all of them stand. One query."""
    lines = journal_lines(**asked)[:MOST_LINES]
    return {"lines": [shown_line(line) for line in lines], "url": reverse("journal", query=asked)}


def shown_line(line: JournalLine) -> dict:
    return {"line": line, "principal": principal_named(line.principal) if line.principal else None,
            "place_url": address_url("entity", line.entity) if line.entity else ""}
