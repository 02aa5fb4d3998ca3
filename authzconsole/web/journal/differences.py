"""The page of differences: what an entity or principal gained and lost between two revisions."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.common.messages import as_sentence
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import PrincipalLink, address_link_to, principal_link_from_text
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.past import revision_from_input
from authzconsole.web.shared.rendering import render_page
from entities.address import Address, AddressError, parse_address
from grants.errors import PrincipalError
from grants.history import HistoryError, KnownSince, known_since, revision_time
from grants.history.differences import Difference, Span, as_differences, difference_parts
from grants.journal import current_revision
from grants.principal_names import parse_principal
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50
FIELDS = ("of", "since", "until")


class _Fault(ValueError):
    """A field of the form is invalid. field: its name."""

    def __init__(self, field: str, message: str):
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Row:
    """A difference for display."""

    difference: Difference
    principal: PrincipalLink | None
    group: PrincipalLink | None
    entity: object


@require_safe
@capability_required(Capability.READ_JOURNAL)
def differences_page(request: HttpRequest) -> HttpResponse:
    form = {name: text_parameter(request, name) for name in FIELDS} | {"contents": "contents" in request.GET}
    context: dict = {"form": form, "url": reverse("journal-differences")}
    if form["of"] or form["since"]:
        try:
            context |= _result(request, form)
        except _Fault as fault:
            context |= {"fault": str(fault), "invalid_field": fault.field}
    return render_page(request, "journal/differences.html", context)


def _result(request: HttpRequest, form: dict) -> dict:
    """Return the rows of a page and its links. Raise _Fault if a field is invalid."""
    subject = _subject(form["of"])
    span = Span(_revision(form, "since"), _revision(form, "until") if form["until"] else current_revision())
    if span.before > span.after:
        raise _Fault("since", "The first date is after the second one.")
    try:
        parts = difference_parts(subject, span, with_contents=form["contents"])
    except HistoryError as error:
        raise _Fault("since", as_sentence(error)) from None
    rows, next_position = _page(parts, text_parameter(request, "after"))
    known: KnownSince | None = known_since(subject)
    return {
        "rows": [_row(difference) for difference in as_differences(rows, span)],
        "span": span,
        "subject": subject,
        "next_url": url_with(request, after=next_position) if next_position else "",
        "first_url": url_with(request, after=None) if text_parameter(request, "after") else "",
        "since_time": revision_time(span.before),
        "until_time": revision_time(span.after),
        "is_import": known is not None and known.is_import and known.revision > span.before,
        "known": known,
        "downloads": [
            (title, _download_url(subject, form, span, extension))
            for title, extension in (("CSV", "csv"), ("JSON Lines", "jsonl"))
        ],
    }


def _page(parts: list, after: str) -> tuple[list, str]:
    """Return a page of rows, and the position of the next page (part and primary key); empty on the last
    page.
    """
    number, _, pk = after.partition("-")
    first, last = (
        (int(number), int(pk)) if number.isdecimal() and pk.isdecimal() and len(after) < 30 else (0, 0)
    )
    rows: list[tuple[int, object]] = []
    for index, part in enumerate(parts):
        if index < first or len(rows) > ROWS_PER_PAGE:
            continue
        start = last if index == first else 0
        page = part.filter(pk__gt=start).order_by("pk")[: ROWS_PER_PAGE + 1 - len(rows)]
        rows += [(index, row) for row in page]
    position = (
        f"{rows[ROWS_PER_PAGE - 1][0]}-{rows[ROWS_PER_PAGE - 1][1].pk}" if len(rows) > ROWS_PER_PAGE else ""
    )
    return [row for _, row in rows[:ROWS_PER_PAGE]], position


def _row(difference: Difference) -> Row:
    is_membership = difference.what == "membership"
    return Row(
        difference,
        principal_link_from_text(difference.principal) if difference.principal else None,
        principal_link_from_text(difference.value) if is_membership else None,
        address_link_to(parse_address(difference.entity)) if difference.entity else None,
    )


def _subject(text: str) -> Address | str:
    """Return the address or principal. Raise _Fault if the text is neither."""
    if not text:
        raise _Fault("of", "Enter an entity, a user or a group.")
    try:
        return (
            ":".join(parse_principal(text)) if text.startswith(("user:", "group:")) else parse_address(text)
        )
    except (PrincipalError, AddressError) as error:
        raise _Fault("of", as_sentence(error)) from None


def _revision(form: dict, name: str) -> int:
    if not form[name]:
        raise _Fault(name, "Enter a date, a time or a revision.")
    try:
        return revision_from_input(form[name])
    except HistoryError as error:
        raise _Fault(name, as_sentence(error)) from None


def _download_url(subject: Address | str, form: dict, span: Span, extension: str) -> str:
    query = {
        "principal" if isinstance(subject, str) else "entity": subject,
        "since": span.before,
        "until": span.after,
    }
    if form["contents"]:
        query["contents"] = "true"
    return f"{reverse(f'rest-differences-{extension}')}?{urlencode(query, safe=':')}"
