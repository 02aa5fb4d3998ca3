"""A report as its own rows say it: any table of any analysis, filtered, sorted and paged, and its figures by their names."""

from functools import lru_cache

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.results.read import ResultPage
from analytics.storage import StorageError, storage_path
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.reports.cell_links import cell_urls
from authzconsole.web.reports.cells import AFTER, cell_of, shown_columns
from authzconsole.web.reports.readiness_report import ROWS_A_PAGE, numbered_rows, unreadable
from authzconsole.web.reports.run_details import changes_words, run_or_404
from authzconsole.web.reports.table_filters import asked_of, choices_of, download_urls, filter_columns, table_where
from authzconsole.web.reports.table_headings import table_heading, table_words
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import address_url
from authzconsole.web.shared.paging import numbered_page, page_number, url_with
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.vocabulary import Privilege

# a narrow screen folds all but the first away where there are more
MAX_UNFOLDED_FILTERS = 3
# of all reports, kept by a process
MAX_CACHED_FIRST_PAGES = 32


def table_parts(request: HttpRequest, run: AnalysisRun, part: str) -> dict:
    """What the page shows of a report; only the table where htmx asks for it."""
    analysis = analysis_named(run.analysis)
    try:
        parts = {"table": shown_table(request, run, analysis.rows)}
    except (AnalysisError, StorageError) as error:
        return {"report_fault": unreadable(run, error)}
    if part != "rows":
        parts["named_figures"] = [(run.summary.get(name, 0), name.replace("_", " ")) for name in analysis.figures]
    return parts


@require_safe
@auditor_required
def report_table_page(request: HttpRequest, pk: int, table: str) -> HttpResponse:
    """Any one table of a report, such as its changes since the run before."""
    run = run_or_404(pk)
    try:
        found = analysis_named(run.analysis).table(table)
    except AnalysisError:
        raise Http404("there is no such table") from None
    if run.state != RunState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    title = f"{analysis_named(run.analysis).title}: {table_words(table)}"
    context = {"run": run, "title": title, "url": request.path,
               "note": changes_words(run) if table == "changes" else f"As of revision {run.revision:,}." if run.revision else ""}
    try:
        context["table"] = shown_table(request, run, found)
    except (AnalysisError, StorageError) as error:
        context["report_fault"] = unreadable(run, error)
    if requested_section(request) == "rows":
        template = "reports/_table.html" if "table" in context else "reports/_unreadable.html"
        return render_page(request, template, context | {"part": "rows"})
    return render_page(request, "reports/table.html", context)


def shown_table(request: HttpRequest, run: AnalysisRun, table: Table) -> dict:
    """Raises AnalysisError, StorageError where it cannot be read."""
    order, asked = _order(request, run, table), asked_of(request, table)
    sort = order.removeprefix("-")
    found, number = _found(request, run, table, order, asked)
    columns = shown_columns(table.columns)
    rows = [_row(request, run, table, columns, row) for row in found.rows]
    page = numbered_page(request, rows, number=number, total=found.total_rows, max_rows=ROWS_A_PAGE, name="page")
    return {
        "title": table_heading(run, table), "page": page, "rows": rows, "total": found.total_rows,
        "sort": order if order == request.GET.get("sort") else "", **_filters(table, asked),
        "has_actions": any(row["grant_url"] for row in rows),
        "is_filtered": any(asked.values()), "reset_url": url_with(request, page=None, **dict.fromkeys(asked)),
        "columns": [_head(request, column, order, sort) for column in columns],
        "downloads": download_urls(run, table.name, asked),
    }


def _order(request: HttpRequest, run: AnalysisRun, table: Table) -> str:
    """The column that sorts, after a minus where its largest stands first; empty for the order of the key."""
    asked = request.GET.get("sort", "")
    return asked if asked.removeprefix("-") in table.column_names else _first_sort(run, table)


def _first_sort(run: AnalysisRun, table: Table) -> str:
    """Return the column that sorts the table when its page opens; empty for the order of the key."""
    output = analysis_named(run.analysis).output(table.name)
    return output.first_sort if output else ""


def _found(request: HttpRequest, run: AnalysisRun, table: Table, order: str, asked: dict[str, str]) -> tuple[ResultPage, int]:
    """The rows of the page, and its number."""
    number = page_number(request, "page")
    if number == 1 and not any(asked.values()) and order and order == _first_sort(run, table):
        return _first_found(run, table.name, order, storage_path(run.result_folder), run.results_removed_at)
    return numbered_rows(run, table.name, number=number, most_rows=ROWS_A_PAGE, sort=order.removeprefix("-"),
                         where=table_where(table, asked), descending=order.startswith("-"))


@lru_cache(maxsize=MAX_CACHED_FIRST_PAGES)
def _first_found(run: AnalysisRun, table: str, order: str, *written: object) -> tuple[ResultPage, int]:
    """Kept, for sorting a long table takes longer than the rest of its page. written: tells this writing from any other."""
    return numbered_rows(run, table, number=1, most_rows=ROWS_A_PAGE, sort=order)


def _row(request: HttpRequest, run: AnalysisRun, table: Table, columns: list[Column], row: dict) -> dict:
    urls = cell_urls(run, table, row)
    output = analysis_named(run.analysis).output(table.name)
    is_grantable = output is not None and output.needs_administrator and request.user.can_administer
    grant_url = f"{address_url('grant', row['entity'])}?privilege={Privilege.ADMIN}" if is_grantable else ""
    return {"cells": [cell_of(column, row, urls) for column in columns], "grant_url": grant_url}


def _filters(table: Table, asked: dict[str, str]) -> dict:
    filters = [_filter(column, asked) for column in filter_columns(table)]
    unfolded = len(filters) if len(filters) <= MAX_UNFOLDED_FILTERS else 1
    more = filters[unfolded:]
    return {"filters": filters[:unfolded], "more_filters": more, "more_are_set": any(filter["value"] for filter in more)}


def _filter(column: Column, asked: dict[str, str]) -> dict:
    return {"name": column.name, "title": column.name.replace("_", " ").capitalize(),
            "value": asked[column.name], "choices": choices_of(column).items()}


def _head(request: HttpRequest, column: Column, order: str, sort: str) -> dict:
    """With the URL that sorts by it; a second click turns the order around."""
    return {"name": column.name, "title": _title(column), "is_number": column.type == ColumnType.LONG,
            "order": ("descending" if order.startswith("-") else "ascending") if column.name == sort else "",
            "url": url_with(request, sort=f"-{column.name}" if order == column.name else column.name, page=None)}


def _title(column: Column) -> str:
    return column.name.removesuffix(AFTER).replace("_", " ").capitalize()
