"""The page of the journal with filters, and the verification of its hash chain."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, reduce
from operator import or_

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.timezone import localtime
from django.views.decorators.http import require_safe

from authzconsole.lists.journal import JournalLines
from authzconsole.web.forms import (
    AddressField,
    FlagField,
    ListForm,
    PrincipalField,
    TextField,
    TimeFilterField,
)
from authzconsole.web.journal.periods import Period, recent_periods
from authzconsole.web.journal.rows import journal_row, journal_rows, plan_number
from authzconsole.web.lists import ListPage
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import Page
from authzconsole.web.shared.parameters import number_parameter
from authzconsole.web.shared.principal_input import with_default_type
from authzconsole.web.shared.rendering import render_page
from authzconsole.web.shared.times import moment_input
from entities.frozen import frozen
from grants.journal import ACTIONS, current_head, read_only_reason, verify_part
from grants.journal_keys import journal_keys
from grants.journal_queries import MAX_LINES_SEARCHED, has_contents_index
from grants.models import JournalLine, Plan, User
from grants.plans.counts import change_count, plan_counts

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


@frozen
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
    contents = FlagField()
    action = TextField()
    since = TimeFilterField()
    until = TimeFilterField(is_end=True)

    def filtered_list(self, account: User, **filters: object) -> JournalLines:
        values = self.cleaned_data if self.is_valid() else {}
        filters |= {"principal": with_default_type(values.get("principal", "")), "contents": ""}
        if values.get("contents") and values.get("entity"):
            filters |= {"contents_of": filters.get("contents_of", values["entity"]), "entity": ""}
        return super().filtered_list(account, **filters)

    @property
    def filters_without_index(self) -> list[str]:
        """The filters without an index, for which only a part of the journal is searched for one page."""
        if not self.is_valid():
            return []
        entity = self.cleaned_data["contents"] and self.cleaned_data["entity"]
        contents = ["contents_of"] if entity and not has_contents_index(entity) else []
        return [*(["text"] if "text" in self.texts else []), *contents]

    @property
    def time_inputs(self) -> dict[str, str]:
        """Return the type of each time field: a date picker, unless the value has a time or cannot be shown
        by one.
        """
        return {
            name: "text" if name in self.errors else moment_input(self.texts.get(name, ""))
            for name in ("since", "until")
        }

    @property
    def has_only_times(self) -> bool:
        return self.texts.keys() <= {"since", "until"}


class JournalPage(ListPage):
    """The lines, newest first. Without filters, the lines of an applied plan are folded into one row."""

    form_class = JournalForm
    template_name = "journal/page.html"
    section = ("lines", "journal/_lines.html")
    page_url = "journal"
    file_url = "journal-file"

    def get_context_data(self) -> dict:
        context, head = super().get_context_data(), current_head()
        page, plans = context["page"], folded_plans(context["page"].rows) if self.is_folded else {}
        return context | {
            "search": self.search,
            "rows": [row | {"folded": plans.get(row["line"].revision)} for row in journal_rows(page.rows)],
            "has_folded": bool(plans),
            # the pager leads to the other lines that were searched
            "has_older": self.search is not None and self.search.first > 1 and not page.next_url,
            "presets": [
                Period("7-days", "Last 7 days", localtime().date() - timedelta(days=7)),
                *recent_periods(),
            ],
            "actions": sorted(ACTIONS.items(), key=lambda item: item[1]),
            "head": head,
            "revision": head.revision,
        }

    @cached_property
    def is_folded(self) -> bool:
        return not self.form.texts and self.request.GET.get("lines") != "all"

    @cached_property
    def search(self) -> SearchWindow | None:
        """The lines that are searched without an index; None without such a filter, or with an invalid one."""
        if not self.form.filters_without_index:
            return None
        return _search_window(self.request, self.form, self.form.filtered_list(self.request.user).rows())

    def page(self, rows: QuerySet, order: tuple[str, ...]) -> Page:
        if self.search is not None:
            rows = self.search.rows
        elif self.is_folded:
            rows = rows.exclude(FOLDED)
        page = super().page(rows, order)
        if not page.rows:
            return page
        first, last = page.rows[0].revision, page.rows[-1].revision
        return replace(page, position=f"revisions {first:,} to {last:,}")


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


def _search_window(request: HttpRequest, form: JournalForm, rows: QuerySet[JournalLine]) -> SearchWindow:
    """Return the lines that a search for text reads for one page: at most MAX_LINES_SEARCHED revisions. Runs
    one query.

    The window starts at the newest line of the other filters, or where the
    previous page ended.
    """
    before, after = (number_parameter(request, name) for name in ("before", "after"))
    if before is None and after is not None:
        first, last = after + 1, after + MAX_LINES_SEARCHED
    else:
        newest = form.filtered_list(request.user, **dict.fromkeys(form.filters_without_index, "")).rows()
        newest = newest if before is None else newest.filter(place__lt=before)
        last = newest.values_list("place", flat=True).first() or 0
        first = max(1, last - MAX_LINES_SEARCHED + 1)
    return SearchWindow(rows.filter(place__gte=first, place__lte=last), first, last)
