"""The tables of reports, filtered, sorted and paged, and the figures of reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, AnalysisName, analysis_by_name
from analytics.models import AnalysisRun
from analytics.results.read import ResultPage
from analytics.storage import StorageError, storage_path
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.reports.cell_links import cell_urls
from authzconsole.web.reports.readiness_report import ROWS_PER_PAGE, read_page, report_fault
from authzconsole.web.reports.run_details import changes_sentence, run_or_404
from authzconsole.web.reports.table_filters import (
    choices_of,
    download_urls,
    filter_columns,
    filter_values,
    table_filter,
)
from authzconsole.web.reports.table_headings import column_head, figure_label, table_heading, table_title
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import (
    AddressLink,
    PrincipalLink,
    address_link_to,
    address_url,
    principal_link_from_text,
)
from authzconsole.web.shared.paging import numbered_page, page_number, url_with
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.address import Address, AddressError, parse_address
from entities.vocabulary import KINDS, Privilege
from grants.models import JobState
from grants.roles.capabilities import Capability

# with more filters than this, a narrow screen collapses all but the first
MAX_EXPANDED_FILTERS = 3
# per process
MAX_CACHED_FIRST_PAGES = 32


def table_sections(request: HttpRequest, run: AnalysisRun, section: str) -> dict:
    """Return the sections of a report page; only the table if htmx requests it."""
    analysis = analysis_by_name(run.type)
    try:
        sections = {"table": table_section(request, run, analysis.rows)}
    except (AnalysisError, StorageError) as error:
        return {"report_fault": report_fault(run, error)}
    if section != "rows":
        sections["named_figures"] = [
            (run.summary.get(name, 0), figure_label(name)) for name in analysis.figures
        ]
    return sections


@require_safe
@capability_required(Capability.READ_REPORTS)
def report_table_page(request: HttpRequest, pk: int, table: str) -> HttpResponse:
    """Show one table of a report, such as its changes since the previous run."""
    run = run_or_404(pk)
    try:
        definition = analysis_by_name(run.type).table(table)
    except AnalysisError:
        raise Http404("there is no such table") from None
    if run.state != JobState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    title = f"{analysis_by_name(run.type).title}: {table_title(run, table)}"
    note = f"As of revision {run.revision:,}." if run.revision else ""
    context = {
        "run": run,
        "title": title,
        "url": request.path,
        "note": changes_sentence(run) if table == "changes" else note,
    }
    try:
        context["table"] = table_section(request, run, definition)
    except (AnalysisError, StorageError) as error:
        context["report_fault"] = report_fault(run, error)
    if requested_section(request) == "rows":
        template = "reports/_table.html" if "table" in context else "reports/_unreadable.html"
        return render_page(request, template, context | {"section": "rows"})
    return render_page(request, "reports/table.html", context)


def table_section(request: HttpRequest, run: AnalysisRun, table: Table) -> dict:
    """Return the section of a table. Raise AnalysisError or StorageError if it cannot be read."""
    order, filters = _order(request, run, table), filter_values(request, table)
    result, number = _result_page(request, run, table, order, filters)
    columns = visible_columns(table.columns)
    rows = [_row(request, run, table, columns, row) for row in result.rows]
    page = numbered_page(
        request, rows, number=number, total=result.total_rows, max_rows=ROWS_PER_PAGE, name="page"
    )
    return {
        "title": table_heading(run, table),
        "page": page,
        "rows": rows,
        "total": result.total_rows,
        "sort": order if order == request.GET.get("sort") else "",
        **_filters(table, filters),
        "has_actions": any(row["grant_url"] for row in rows),
        "has_ghosts": any(row["ghost"] for row in rows),
        "is_filtered": any(filters.values()),
        "reset_url": url_with(request, page=None, **dict.fromkeys(filters)),
        "columns": [
            column_head(
                request, column.name, _title(column), is_number=column.type == ColumnType.LONG, order=order
            )
            for column in columns
        ],
        "downloads": download_urls(run, table.name, filters),
    }


def _order(request: HttpRequest, run: AnalysisRun, table: Table) -> str:
    """Return the column that sorts the table, after a minus for descending order; empty for the order of the
    key.
    """
    sort = request.GET.get("sort", "")
    return sort if sort.removeprefix("-") in table.column_names else _first_sort(run, table)


def _first_sort(run: AnalysisRun, table: Table) -> str:
    """Return the column that sorts the table when its page opens; empty for the order of the key."""
    output = analysis_by_name(run.type).output(table.name)
    return output.first_sort if output else ""


def _result_page(
    request: HttpRequest, run: AnalysisRun, table: Table, order: str, filters: dict[str, str]
) -> tuple[ResultPage, int]:
    """Return the rows of the requested page, and its number."""
    number = page_number(request, "page")
    if number == 1 and not any(filters.values()) and order and order == _first_sort(run, table):
        return _first_page(run, table.name, order, storage_path(run.result_path), run.result_removed_at)
    return read_page(
        run,
        table.name,
        number=number,
        max_rows=ROWS_PER_PAGE,
        sort=order.removeprefix("-"),
        where=table_filter(table, filters),
        descending=order.startswith("-"),
    )


@lru_cache(maxsize=MAX_CACHED_FIRST_PAGES)
def _first_page(run: AnalysisRun, table: str, order: str, *version: object) -> tuple[ResultPage, int]:
    """Return the first page in the default order, cached because sorting a long table is slow.

    version: identifies the stored result.
    """
    return read_page(run, table, number=1, max_rows=ROWS_PER_PAGE, sort=order)


def _row(request: HttpRequest, run: AnalysisRun, table: Table, columns: list[Column], row: dict) -> dict:
    urls = cell_urls(run, table, row)
    output = analysis_by_name(run.type).output(table.name)
    is_grantable = output is not None and output.needs_administrator and request.user.can_administer
    grant_url = f"{address_url('grant', row['entity'])}?privilege={Privilege.ADMIN}" if is_grantable else ""
    is_ghost = run.type == AnalysisName.GHOST_GRANTS and table.name == "rows" and request.user.can_administer
    ghost = "\t".join((row["principal"], row["entity"], row["privilege"])) if is_ghost else ""
    return {
        "cells": [cell_of(column, row, urls) for column in columns],
        "grant_url": grant_url,
        "ghost": ghost,
    }


def _filters(table: Table, values: dict[str, str]) -> dict:
    filters = [_filter(column, values) for column in filter_columns(table)]
    expanded = len(filters) if len(filters) <= MAX_EXPANDED_FILTERS else 1
    more = filters[expanded:]
    return {
        "filters": filters[:expanded],
        "more_filters": more,
        "has_active_more_filters": any(row["value"] for row in more),
    }


def _filter(column: Column, values: dict[str, str]) -> dict:
    return {
        "name": column.name,
        "title": column.name.replace("_", " ").capitalize(),
        "value": values[column.name],
        "choices": choices_of(column).items(),
    }


def _title(column: Column) -> str:
    return column.name.removesuffix(AFTER).replace("_", " ").capitalize()


YES_NO = {True: "yes", False: "no"}
# a table of changes has two columns for each value
BEFORE, AFTER = "_before", "_after"
# by column: the value that is displayed as good
GOOD_VALUES = {"ready": True, "before": True, "after": True, "nobody_can_delete": False}


@dataclass(frozen=True, slots=True)
class ReportCell:
    """One cell. At most one of principal, address_link, kind, state and mood is set; it determines the
    display.

    text: the value as plain text. url: the link of the text. mood: good, bad, or quiet for an empty value.
    before: the cell of the previous value, if that differs.
    """

    text: str
    is_number: bool = False
    url: str = ""
    principal: PrincipalLink | None = None
    address_link: AddressLink | None = None
    kind: str = ""
    state: str = ""
    mood: str = ""
    before: "ReportCell | None" = None

    @property
    def text_with_previous(self) -> str:
        """The text, such as `no → yes` if there is a previous value."""
        return f"{self.before.text} → {self.text}" if self.before else self.text


def visible_columns(columns: tuple[Column, ...]) -> list[Column]:
    """Return the columns that have their own cell.

    A previous value is part of the cell of the current value.
    """
    return [column for column in columns if not column.name.endswith(BEFORE)]


def cell_of(column: Column, row: Mapping, urls: Mapping[str, str]) -> ReportCell:
    """Return the cell of a column. urls: links by column name."""
    if not column.name.endswith(AFTER):
        return replace(_cell(column, column.name, row[column.name]), url=urls.get(column.name, ""))
    name = column.name.removesuffix(AFTER)
    before, after = (_cell(column, name, row[name + suffix]) for suffix in (BEFORE, AFTER))
    if before.text and after.text and before.text != after.text:
        return replace(after, before=before)
    return after if after.text else before


def _cell(column: Column, name: str, value: str | int | bool | None) -> ReportCell:
    if isinstance(value, bool):
        good_value = GOOD_VALUES.get(name)
        return ReportCell(
            YES_NO[value], mood="" if good_value is None else "good" if value is good_value else "bad"
        )
    if isinstance(value, int):
        return ReportCell(f"{value:,}", is_number=True)
    if value and name in CELL_FACTORIES:
        return CELL_FACTORIES[name](value)
    if value == "" and name in EMPTY_CELLS:
        return EMPTY_CELLS[name]
    return ReportCell(value or "", is_number=column.type == ColumnType.LONG)


def _user(name: str) -> ReportCell:
    return ReportCell(name, principal=PrincipalLink("user", name))


def _principal(address: str) -> ReportCell:
    return ReportCell(address, principal=principal_link_from_text(address))


def _namespace(name: str) -> ReportCell:
    return ReportCell(name, address_link=address_link_to(Address("namespace", name)))


def _entity(address: str) -> ReportCell:
    try:
        return ReportCell(address, address_link=address_link_to(parse_address(address)))
    except AddressError:
        # the kind existed when the report was written, but no longer does
        return ReportCell(address)


def _kind(name: str) -> ReportCell:
    return ReportCell(KINDS[name].title if name in KINDS else name, kind=name)


def _state(name: str) -> ReportCell:
    return ReportCell(name, state=name)


# by column: the cell of an empty value
EMPTY_CELLS = {"admin": ReportCell("none", mood="bad"), "namespace": ReportCell("none", mood="quiet")}
# by column: the function that creates its cell; all other columns are plain text
CELL_FACTORIES: dict[str, Callable[[str], ReportCell]] = {
    "user": _user,
    "nearest_user": _user,
    "admin": _user,
    "principal": _principal,
    "namespace": _namespace,
    "entity": _entity,
    "kind": _kind,
    "state": _state,
}
