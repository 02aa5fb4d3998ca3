"""The tables of reports, filtered, sorted and paged, and their downloads.

What a table shows follows from its columns and from the registry of analyses. `cell_links` has the links of
its cells.
"""

from dataclasses import replace

from django.http import Http404, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, AnalysisName, Output, analysis_by_name
from analytics.models import AnalysisRun
from analytics.results.compare import CHANGES
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage, result_stream
from analytics.results.recheck import FINDERS, fixed_rows
from analytics.runs.selectors import changes_since
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.forms import ConsoleForm, OptionalChoiceField, TextField
from authzconsole.web.reports.cell_links import cell_urls, exact_value
from authzconsole.web.reports.results import (
    REPORT_ERRORS,
    cached_by_report,
    changes_sentence,
    namespace_summaries,
    read_page,
    report_fault,
    run_or_404,
)
from authzconsole.web.reports.summary import use_coverage
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import numbered_page, page_number, url_with
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.times import exact_time
from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import KINDS, Privilege
from grants.models import JobState
from grants.policies.times import TimeError, parse_time
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50
# with more filters than this, a narrow screen collapses all but the first
MAX_EXPANDED_FILTERS = 3
# by analysis: the name of the rows of its detail table
DETAIL_NAMES = {
    AnalysisName.DELETE_READINESS: "missing grants",
    AnalysisName.VISIBILITY: "visible entities",
    AnalysisName.POLICY_IMPACT: "changed permissions",
    AnalysisName.BLAST_RADIUS: "privileges on entities",
}
# the tables of which rows can be selected for a plan: the name of the page that creates it
SELECTIONS = {
    (AnalysisName.GHOST_GRANTS, "rows"): "plan-ghosts",
    (AnalysisName.OUTLIERS, "rows"): "plan-outliers",
    (AnalysisName.PATTERNS, "rows"): "plan-patterns",
}
# columns outside of the key that can be filtered, in addition to flags and columns with a few possible values
FILTERED = ("through",)
# by column: its title, if it differs from the name
TITLES = {
    "ready": "Can delete it",
    "only": "Only by it",
    "added": "Registered later",
    "reveals_all": "Shows every namespace",
}
FLAGS = {"yes": True, "no": False}
CHOICES = {
    "change": [(change, change) for change in CHANGES],
    "privilege": [(str(privilege), str(privilege)) for privilege in Privilege],
    "state": [(str(state), str(state)) for state in (State.PLANNED, State.DELETED)],
    "admins": [("0", "no ADMIN holder"), ("1", "one ADMIN holder")],
    "ready": [("", "Any status"), ("yes", "Ready"), ("no", "Not ready")],
}
# a table of changes has two columns for each value
BEFORE, AFTER = "_before", "_after"
# columns with a time, which reports write as text
TIMES = ("at", "granted_at")
# by column: the value that is displayed as good
GOOD_VALUES = {"ready": True, "before": True, "after": True, "nobody_can_delete": False}
# by column: how its values are displayed, and as which text; all other columns are plain text
DISPLAYS = {
    "user": ("principal", "user:{}"),
    "nearest_user": ("principal", "user:{}"),
    "admin": ("principal", "user:{}"),
    "principal": ("principal", "{}"),
    "group": ("principal", "group:{}"),
    "through": ("principal", "{}"),
    "namespace": ("address", "namespace:{}"),
    "entity": ("address", "{}"),
    "pattern": ("address", "{}"),
    "narrower": ("address", "{}"),
    "inside": ("address", "{}"),
    "kind": ("kind", "{}"),
    "state": ("state", "{}"),
}
# by column: the display of an empty value as `none`
EMPTY_DISPLAYS = {"admin": "bad", "namespace": "quiet", "principal": "quiet", "through": "quiet"}


@require_safe
@capability_required(Capability.READ_REPORTS)
def report_table_page(request: HttpRequest, pk: int, table: str) -> HttpResponse:
    """Show one table of a report, such as its changes since the previous run."""
    run = run_or_404(pk)
    definition = _table_or_404(run, table)
    if run.state != JobState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    name = DETAIL_NAMES.get(run.type, "detail rows") if table == "detail" else table
    note = f"As of revision {run.revision:,}." if run.revision else ""
    context = {
        "run": run,
        "title": f"{analysis_by_name(run.type).title}: {name}",
        "url": request.path,
        "note": changes_sentence(run) if table == "changes" else note,
    }
    if run.type == AnalysisName.UNUSED and not (use := use_coverage(run)).is_known:
        return render_page(request, "reports/table.html", context | {"use": use})
    context |= table_or_fault(request, run, definition)
    if requested_section(request) == "rows":
        template = "reports/_table.html" if "table" in context else "reports/_unreadable.html"
        return render_page(request, template, context | {"section": "rows"})
    return render_page(request, "reports/table.html", context)


@require_safe
@capability_required(Capability.READ_REPORTS)
def download_table(request: HttpRequest, pk: int, table: str, extension: str) -> HttpResponse:
    """Stream the rows, with the filters of the page.

    The first rows are read before the response starts; an error after that closes the connection.
    """
    run, form = run_or_404(pk), DOWNLOAD_FORMATS.get(f".{extension}")
    if form is None:
        raise Http404("there is no such file format")
    definition = _table_or_404(run, table)
    try:
        where = table_filter(run, definition, table_form(definition, request.GET))
        batches = result_stream(run, table, where=where)
    except REPORT_ERRORS:
        # the page of the run shows the error
        return see_other(reverse("analysis", args=[run.pk]))
    response = StreamingHttpResponse(
        export_chunks(definition, batches, form), content_type=f"{form.media_type}; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{run.type}-{run.pk}-{table}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _table_or_404(run: AnalysisRun, name: str) -> Table:
    try:
        return analysis_by_name(run.type).table(name)
    except AnalysisError:
        raise Http404("there is no such table") from None


def table_or_fault(request: HttpRequest, run: AnalysisRun, table: Table) -> dict:
    """Return the context `table` of a table, or `report_fault` if it cannot be read."""
    try:
        return {"table": _table_section(request, run, table)}
    except REPORT_ERRORS as error:
        return {"report_fault": report_fault(run, error)}


def _table_section(request: HttpRequest, run: AnalysisRun, table: Table) -> dict:
    output, form = analysis_by_name(run.type).output(table.name), table_form(table, request.GET)
    sort, first_sort = request.GET.get("sort", ""), output.first_sort if output else ""
    order = sort if sort.removeprefix("-") in table.column_names else first_sort
    is_filtered = any(form.cleaned_data.values())
    number = page_number(request)
    if number == 1 and not is_filtered and order and order == first_sort:
        result, number = _first_page(run, table.name, order)
    else:
        result, number = read_page(
            run,
            table.name,
            number=number,
            max_rows=ROWS_PER_PAGE,
            sort=order.removeprefix("-"),
            where=table_filter(run, table, form),
            descending=order.startswith("-"),
        )
    is_checked = (run.type, table.name) in FINDERS and result.rows and changes_since(run)
    fixed = fixed_rows(run, table.name, result.rows) if is_checked else set()
    # a previous value is part of the cell of the current value
    columns = [column for column in table.columns if not column.name.endswith(BEFORE)]
    fields = list(form)
    expanded = len(fields) if len(fields) <= MAX_EXPANDED_FILTERS else 1
    selection = SELECTIONS.get((run.type, table.name), "") if request.user.can_administer else ""
    is_readiness = (run.type, table.name) == (AnalysisName.DELETE_READINESS, "rows")
    return {
        "title": _heading(run, table, output),
        "page": numbered_page(
            request, result.rows, number=number, total=result.total_rows, max_rows=ROWS_PER_PAGE
        ),
        "rows": [
            {
                **row,
                "cells": [cell_of(column, row, urls) for column in columns],
                "is_fixed": number in fixed,
                "holder": row.get("principal", f"user:{row.get('user')}"),
                "place": row.get("entity", row.get("pattern")),
            }
            for number, (row, urls) in enumerate((row, cell_urls(run, table, row)) for row in result.rows)
        ],
        "total": result.total_rows,
        "sort": order if order == sort else "",
        "filters": fields[:expanded],
        "more_filters": fields[expanded:],
        "is_filtered": is_filtered,
        "reset_url": url_with(request, page=None, **dict.fromkeys(form.fields)),
        "columns": [_column_head(request, column, order) for column in columns],
        "downloads": download_urls(run, table.name, form.cleaned_data),
        "grants_admin": output is not None and output.needs_administrator and request.user.can_administer,
        "selection": selection if result.rows else "",
        "is_readiness": is_readiness,
    }


@cached_by_report(32)
def _first_page(run: AnalysisRun, table: str, order: str) -> tuple[ResultPage, int]:
    """Return the first page in the default order, cached because sorting a long table is slow."""
    return read_page(
        run,
        table,
        number=1,
        max_rows=ROWS_PER_PAGE,
        sort=order.removeprefix("-"),
        descending=order.startswith("-"),
    )


def _heading(run: AnalysisRun, table: Table, output: Output | None) -> str:
    if table.name == "changes":
        previous = run.summary.get("changes")
        return f"What changed since run {previous['run']}?" if previous else "What changed?"
    return output.question if output else analysis_by_name(run.type).question


def _column_head(request: HttpRequest, column: Column, order: str) -> dict:
    """Return a column head with the URL that sorts by the column, or reverses the order if the column already
    sorts.
    """
    name = column.name
    direction = "descending" if order.startswith("-") else "ascending"
    return {
        "name": name,
        "title": _title(name.removesuffix(AFTER)),
        "is_number": column.type == ColumnType.LONG,
        "order": direction if order.removeprefix("-") == name else "",
        "url": url_with(request, sort=f"-{name}" if order == name else name, page=None),
    }


def _title(name: str) -> str:
    return TITLES.get(name) or name.replace("_", " ").capitalize()


def choices_of(column: Column) -> list[tuple[str, str]]:
    """Return the (value, label) of each value of a filter; empty if the filter takes any text."""
    if column.name == "kind":
        return [(kind.name, kind.title) for kind in KINDS.values()]
    if column.name == "operation":
        names = sorted({operation for kind in KINDS.values() for operation in kind.operations})
        return [(name, name) for name in names]
    flags = [(text, text) for text in FLAGS] if column.type == ColumnType.FLAG else []
    return CHOICES.get(column.name, flags)


def table_form(table: Table, parameters: QueryDict) -> ConsoleForm:
    """Return the filters: text columns of the key, flags, columns with a few possible values, and the namespace of
    the entity.

    A text that is not one of the possible values is ignored.
    """
    form = ConsoleForm(parameters, auto_id="rows-%s")
    for column in table.columns:
        name, title = column.name, _title(column.name)
        if choices := choices_of(column):
            any_value = [] if choices[0][0] == "" else [("", f"{title}: any")]
            form.fields[name] = OptionalChoiceField(choices=[*any_value, *choices], label=title)
        elif column.type == ColumnType.TEXT and (name in table.key or name in FILTERED):
            form.fields[name] = TextField(label=title)
    if "entity" in table.column_names and "namespace" not in table.column_names:
        form.fields["namespace"] = TextField(label="Namespace", help_text="The complete name of a namespace")
    form.is_valid()
    return form


def table_filter(run: AnalysisRun, table: Table, form: ConsoleForm) -> ResultFilter:
    """Return the conditions of the filters. A text in quotes is a complete value, any other one a part of it."""
    equal: dict[str, str | int | bool] = {}
    numbers = {column.name for column in table.columns if column.type == ColumnType.LONG}
    containing: dict[str, str] = {}
    of_entity = None
    for name, text in form.cleaned_data.items():
        if not text:
            continue
        if isinstance(form.fields[name], OptionalChoiceField):
            equal[name] = int(text) if name in numbers else FLAGS.get(text, text)
        elif name not in table.column_names:
            of_entity = (exact_value(text) or text).removeprefix("namespace:")
        elif exact := exact_value(text):
            equal[name] = exact
        else:
            containing[name] = text
    if (run.type, table.name) == (AnalysisName.DELETE_READINESS, "rows") and "namespace" in containing:
        name = containing["namespace"] = containing["namespace"].removeprefix("namespace:")
        # A complete name matches only that namespace, not longer names that contain it.
        if namespace_summaries(run, [name]):
            equal["namespace"] = containing.pop("namespace")
    return ResultFilter(equal=equal, containing=containing, namespace=of_entity)


def download_urls(
    run: AnalysisRun, table: str, values: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return (title, URL) for each file format. values: the filter text of each column."""
    query = {name: text for name, text in (values or {}).items() if text}
    return [
        (
            form.title,
            reverse("analysis-file", args=[run.pk, table, extension.removeprefix(".")], query=query),
        )
        for extension, form in DOWNLOAD_FORMATS.items()
    ]


@frozen
class ReportCell:
    """One cell. text: the value as plain text. url: its link. before: the cell of the previous value, if that
    differs.

    display: how the template shows the cell: principal, address, kind, state, good, bad, or quiet for an empty
    value; empty for plain text. value: what it shows, such as `user:alice`.
    """

    text: str
    display: str = ""
    value: str = ""
    is_number: bool = False
    url: str = ""
    before: "ReportCell | None" = None


def _shown_time(text: str) -> str:
    try:
        return exact_time(parse_time(text))
    except TimeError:
        return text


def cell_of(column: Column, row: dict, urls: dict[str, str]) -> ReportCell:
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
        mood = "" if good_value is None else "good" if value is good_value else "bad"
        return ReportCell("yes" if value else "no", mood)
    if isinstance(value, int):
        return ReportCell(f"{value:,}", is_number=True)
    if value == "" and name in EMPTY_DISPLAYS:
        return ReportCell("none", EMPTY_DISPLAYS[name])
    if value and name in TIMES and isinstance(value, str):
        return ReportCell(_shown_time(value))
    if not value or name not in DISPLAYS:
        return ReportCell(value or "", is_number=column.type == ColumnType.LONG)
    display, text = DISPLAYS[name]
    shown = text.format(value)
    if display == "address" and shown.partition(":")[0] not in KINDS:
        # the kind existed when the report was written, but no longer does
        return ReportCell(value)
    title = KINDS[value].title if display == "kind" and value in KINDS else value
    return ReportCell(title, display, shown)
