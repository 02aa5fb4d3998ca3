"""A report as its own rows say it: any analysis's first table, sorted and paged, and its figures by their names."""

from django.http import HttpRequest

from analytics.analyses import AnalysisError, analysis_named
from analytics.models import AnalysisRun
from analytics.storage import StorageError
from analytics.tables import ColumnType, Table
from authzconsole.web.paging import numbered_page, page_number, url_with
from authzconsole.web.reports import ROWS_A_PAGE, numbered_rows, unreadable


def table_parts(request: HttpRequest, run: AnalysisRun, part: str) -> dict:
    """What the page shows of a report; only the table where htmx asks for it."""
    analysis = analysis_named(run.analysis)
    try:
        parts = {"table": _table(request, run, analysis.rows)}
    except (AnalysisError, StorageError) as error:
        return {"report_fault": unreadable(run, error)}
    if part != "rows":
        parts["named_figures"] = [(run.summary.get(name, 0), name.replace("_", " ")) for name in analysis.figures]
    return parts


def _table(request: HttpRequest, run: AnalysisRun, table: Table) -> dict:
    asked = request.GET.get("sort", "")
    sort = asked.removeprefix("-") if asked.removeprefix("-") in table.column_names else ""
    found, number = numbered_rows(run, "rows", number=page_number(request, "page"), most_rows=ROWS_A_PAGE, sort=sort,
                                  descending=asked.startswith("-"))
    rows = [[(row[column.name], column.type == ColumnType.LONG) for column in table.columns] for row in found.rows]
    page = numbered_page(request, rows, number=number, total=found.total_rows, most_rows=ROWS_A_PAGE, name="page")
    return {"page": page, "rows": rows, "total": found.total_rows, "columns": [
        {"name": column.name, "title": column.name.capitalize(), "is_number": column.type == ColumnType.LONG,
         "order": ("descending" if asked.startswith("-") else "ascending") if column.name == sort else "",
         "url": url_with(request, sort=f"-{column.name}" if asked == column.name else column.name, page=None)}
        for column in table.columns]}
