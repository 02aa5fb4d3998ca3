"""A report as its own rows say it: any table of any analysis, filtered, sorted and paged, and its figures by their names."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.storage import StorageError
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.guard import overseers_only
from authzconsole.web.paging import numbered_page, page_number, url_with
from authzconsole.web.places import entity_url
from authzconsole.web.rendering import render_page, see_other, target_part
from authzconsole.web.report_parameters import asked_of, choices_of, download_urls, filter_columns, table_where
from authzconsole.web.reports import ROWS_A_PAGE, namespace_url, numbered_rows, unreadable
from authzconsole.web.runs import changes_words, run_or_404
from entities.address import AddressError, parse_address

TITLES = {"rows": "Rows", "detail": "The pairs behind the rows", "changes": "Changes"}
WORDS = {True: "yes", False: "no"}
# a narrow screen folds all but the first away where there are more
MOST_FILTERS_UNFOLDED = 3
# of a table of changes each column stands there twice
BEFORE, AFTER = "_before", "_after"


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
@overseers_only
def report_table(request: HttpRequest, pk: int, table: str) -> HttpResponse:
    """Any one table of a report, such as its changes since the run before."""
    run = run_or_404(pk)
    try:
        found = analysis_named(run.analysis).table(table)
    except AnalysisError:
        raise Http404("there is no such table") from None
    if run.state != RunState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    title = TITLES.get(table, table.capitalize())
    context = {"run": run, "title": title, "url": request.path,
               "note": changes_words(run) if table == "changes" else f"As of revision {run.revision:,}." if run.revision else ""}
    try:
        context["table"] = shown_table(request, run, found)
    except (AnalysisError, StorageError) as error:
        context["report_fault"] = unreadable(run, error)
    if target_part(request) == "rows":
        template = "analyses/_table.html" if "table" in context else "analyses/_unreadable.html"
        return render_page(request, template, context | {"part": "rows"})
    return render_page(request, "analyses/table.html", context)


def shown_table(request: HttpRequest, run: AnalysisRun, table: Table) -> dict:
    """Raises AnalysisError, StorageError where it cannot be read."""
    order, asked = request.GET.get("sort", ""), asked_of(request, table)
    sort = order.removeprefix("-") if order.removeprefix("-") in table.column_names else ""
    found, number = numbered_rows(run, table.name, number=page_number(request, "page"), most_rows=ROWS_A_PAGE, sort=sort,
                                  where=table_where(table, asked), descending=order.startswith("-"))
    columns = [column for column in table.columns if not column.name.endswith(BEFORE)]
    rows = [[_cell(column, row) for column in columns] for row in found.rows]
    page = numbered_page(request, rows, number=number, total=found.total_rows, most_rows=ROWS_A_PAGE, name="page")
    return {
        "title": TITLES.get(table.name, table.name.capitalize()), "page": page, "rows": rows, "total": found.total_rows,
        "sort": order if sort else "", **_filters(table, asked),
        "is_filtered": any(asked.values()), "reset_url": url_with(request, page=None, **dict.fromkeys(asked)),
        "columns": [_head(request, column, order, sort) for column in columns],
        "downloads": download_urls(run, table.name, asked),
    }


def _filters(table: Table, asked: dict[str, str]) -> dict:
    filters = [_filter(column, asked) for column in filter_columns(table)]
    unfolded = len(filters) if len(filters) <= MOST_FILTERS_UNFOLDED else 1
    more = filters[unfolded:]
    return {"filters": filters[:unfolded], "more_filters": more, "more_are_set": any(filter["value"] for filter in more)}


def _filter(column: Column, asked: dict[str, str]) -> dict:
    return {"name": column.name, "title": column.name.replace("_", " ").capitalize(),
            "value": asked[column.name], "choices": choices_of(column)}


def _head(request: HttpRequest, column: Column, order: str, sort: str) -> dict:
    """With the URL that sorts by it; a second click turns the order around."""
    return {"name": column.name, "title": _title(column), "is_number": column.type == ColumnType.LONG,
            "order": ("descending" if order.startswith("-") else "ascending") if column.name == sort else "",
            "url": url_with(request, sort=f"-{column.name}" if order == column.name else column.name, page=None)}


def _title(column: Column) -> str:
    return column.name.removesuffix(AFTER).replace("_", " ").capitalize()


def _cell(column: Column, row: dict) -> tuple:
    """What is shown, whether it is a number, and where what it names is to be found. Of a change: as it was, and as it is."""
    is_number = column.type == ColumnType.LONG
    if column.name.endswith(AFTER):
        before, after = (_shown(row[column.name.removesuffix(AFTER) + when]) for when in (BEFORE, AFTER))
        return f"{before} → {after}" if before and after and before != after else after or before, is_number, ""
    value = row[column.name]
    return _shown(value), is_number, _url(column.name, value) if value else ""


def _shown(value) -> str:
    if isinstance(value, bool):
        return WORDS[value]
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


def _url(name: str, value: str) -> str:
    if name == "namespace":
        return namespace_url(value)
    if name != "entity":
        return ""
    try:
        return entity_url(parse_address(value))
    except AddressError:
        # of a kind that this console had when the report was made
        return ""
