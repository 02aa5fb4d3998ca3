"""The page of the journal with filters, its downloads, and the verification of its hash chain."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.lists.files import list_file
from authzconsole.lists.journal import JournalLines
from authzconsole.web.forms import AddressField, ListForm, PrincipalField, TextField, TimeFilterField
from authzconsole.web.journal.rows import journal_row, journal_rows, plan_number
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import Page, keyset_page
from authzconsole.web.shared.parameters import number_parameter
from authzconsole.web.shared.principal_input import with_default_type
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.journal import ACTIONS, current_head, read_only_reason, verify_part
from grants.journal_keys import journal_keys
from grants.models import JournalLine, Plan, User
from grants.plans.effect import change_count, plan_counts

MAX_LINES_SHOWN = 20
# their detail starts with the plan; memberships that a plan changes have the group there, and are not folded
FOLDED = Q(action__in=("grant", "revoke", "user-activate", "user-deactivate"), detail__startswith="plan ")


def folded_plans(lines: Iterable[JournalLine]) -> dict[int, dict]:
    """Return the changes of each applied plan, by the revision of the line about it: the plan, the number of its changes, and
    the newest MAX_LINES_SHOWN of its lines. Runs two queries, or none.
    """
    applied = {
        line.revision: number
        for line in lines
        if line.action == "plan-apply" and (number := plan_number(line)) is not None
    }
    if not applied:
        return {}
    before = reduce(
        or_, (Q(revision__lt=revision, revision__gte=revision - MAX_LINES_SHOWN) for revision in applied)
    )
    stored = {line.revision: line for line in JournalLine.objects.filter(before)}
    plans = Plan.objects.in_bulk(set(applied.values()))
    return {
        revision: {
            "plan": number,
            "total": change_count(plan_counts(plans[number])),
            "rows": list(_rows(stored, revision, number)),
        }
        for revision, number in applied.items()
        if number in plans
    }


def _rows(stored: dict[int, JournalLine], revision: int, number: int) -> Iterator[dict]:
    for before in range(revision - 1, revision - MAX_LINES_SHOWN - 1, -1):
        line = stored.get(before)
        if line is not None and plan_number(line) == number:
            yield journal_row(line)


LINES_PER_PAGE = 50
SECTION = "lines"
MAX_LINES_SEARCHED = 100_000
DATE, DATE_AND_TIME = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class SearchWindow:
    """The lines that were searched for a text, from the revision `first` to `last`. rows: those that contain
    it.
    """

    rows: QuerySet[JournalLine]
    first: int
    last: int


class JournalForm(ListForm):
    list_type = JournalLines

    principal = PrincipalField()
    text = TextField()
    actor = PrincipalField(only="user")
    entity = AddressField()
    action = TextField()
    since = TimeFilterField()
    until = TimeFilterField(is_end=True)

    def filtered_list(self, account: User, **filters: object) -> JournalLines:
        principal = self.cleaned_data["principal"] if self.is_valid() else ""
        return super().filtered_list(account, principal=with_default_type(principal), **filters)

    @property
    def time_inputs(self) -> dict[str, str]:
        """Return the type of each time field: a date picker, unless the value has a time or cannot be shown
        by one.
        """
        return {
            name: "text" if name in self.errors else _time_input(self.texts.get(name, ""))
            for name in ("since", "until")
        }

    @property
    def has_active_more_filters(self) -> bool:
        """Return whether a filter other than the first two is set.

        A narrow screen collapses the other filters.
        """
        return bool(self.texts.keys() - {"principal", "text"})


@require_safe
@capability_required(*JournalLines.readers)
def journal_page(request: HttpRequest) -> HttpResponse:
    form = JournalForm(request.GET)
    rows = form.filtered_list(request.user).rows()
    is_folded = not form.texts and request.GET.get("lines") != "all"
    search = _search_window(request, form, rows) if "text" in form.texts and form.is_valid() else None
    lines = rows.exclude(FOLDED) if is_folded else rows if search is None else search.rows
    page = _page(request, lines)
    plans = folded_plans(page.rows) if is_folded else {}
    template = "journal/_lines.html" if requested_section(request) == SECTION else "journal/page.html"
    return render_page(
        request,
        template,
        {
            "form": form,
            "page": page,
            "search": search,
            "rows": [row | {"folded": plans.get(row["line"].revision)} for row in journal_rows(page.rows)],
            "has_folded": bool(plans),
            # the pager leads to the other lines that were searched
            "has_older": search is not None and search.first > 1 and not page.next_url,
            "actions": sorted(ACTIONS.items(), key=lambda item: item[1]),
            "url": reverse("journal"),
            "head": (head := current_head()),
            "revision": head.revision,
            "downloads": form.downloads("journal-file"),
        },
    )


@require_safe
@capability_required(*JournalLines.readers)
def download_journal(request: HttpRequest, extension: str) -> HttpResponse:
    """Stream all lines that match the filters of the URL, newest first."""
    return list_file(JournalForm(request.GET).filtered_list(request.user), extension)


@require_safe
@capability_required(*JournalLines.readers)
def verify_journal(request: HttpRequest) -> HttpResponse:
    """Verify at most MAX_LINES_PER_PROOF lines after the line in the URL."""
    after = number_parameter(request, "after") or 0
    proof, head = verify_part(after), current_head()
    return render_page(
        request,
        "journal/proof.html",
        {
            "proof": proof,
            "first_line": after + 1,
            "revision": head.revision,
            "head": head if proof.is_complete and proof.verified_to == head.revision else None,
            "keys": list(journal_keys()),
            "read_only_reason": read_only_reason(),
        },
    )


def _time_input(value: str) -> str:
    if not value or DATE.fullmatch(value):
        return "date"
    return "datetime-local" if DATE_AND_TIME.fullmatch(value) else "text"


def _search_window(request: HttpRequest, form: JournalForm, rows: QuerySet[JournalLine]) -> SearchWindow:
    """Return the lines that a search for text reads for one page: at most MAX_LINES_SEARCHED revisions. Runs
    one query.

    There is no index for texts. The window starts at the newest line of the other filters, or where the
    previous page ended.
    """
    before, after = (number_parameter(request, name) for name in ("before", "after"))
    if before is None and after is not None:
        first, last = after + 1, after + MAX_LINES_SEARCHED
    else:
        newest = form.filtered_list(request.user, text="").rows()
        newest = newest if before is None else newest.filter(place__lt=before)
        last = newest.values_list("place", flat=True).first() or 0
        first = max(1, last - MAX_LINES_SEARCHED + 1)
    return SearchWindow(rows.filter(place__gte=first, place__lte=last), first, last)


def _page(request: HttpRequest, rows: QuerySet[JournalLine]) -> Page:
    page = keyset_page(request, rows, "-place", max_rows=LINES_PER_PAGE)
    if not page.rows:
        return page
    first, last = page.rows[0].revision, page.rows[-1].revision
    return replace(page, position=f"lines {first:,} to {last:,}")
