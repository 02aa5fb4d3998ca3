"""Filters of report tables from URL parameters, and URLs of downloads with the same filters."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from analytics.models import AnalysisRun
from analytics.results.compare import CHANGES
from analytics.results.export import DOWNLOAD_FORMATS
from analytics.results.query import ResultFilter
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.shared.parameters import text_parameter
from entities.models import State
from entities.vocabulary import KINDS, Privilege

FLAGS = {"yes": True, "no": False}
CHOICES: dict[str, Sequence[str]] = {
    "change": CHANGES,
    "privilege": tuple(Privilege),
    "state": (State.PLANNED, State.DELETED),
}


def filter_columns(table: Table) -> list[Column]:
    """Return the columns with a filter: text columns of the key, flags, and columns with a few possible
    values.
    """
    return [
        column
        for column in table.columns
        if choices_of(column) or column.type == ColumnType.TEXT and column.name in table.key
    ]


def choices_of(column: Column) -> dict[str, str]:
    """Return the values of a filter with their labels; empty if the filter takes any text."""
    if column.name == "kind":
        return {kind.name: kind.title for kind in KINDS.values()}
    if column.name == "operation":
        values: Iterable[str] = sorted(
            {operation for kind in KINDS.values() for operation in kind.operations}
        )
    else:
        values = FLAGS if column.type == ColumnType.FLAG else CHOICES.get(column.name, ())
    return {str(value): str(value) for value in values}


def exactly(text: str) -> str:
    """Return the filter text that matches exactly this value.

    Without quotes, a filter also matches parts of values.
    """
    return f'"{text}"'


def text_filter(column: str, text: str) -> ResultFilter:
    if not text:
        return ResultFilter()
    if len(text) > 2 and text[0] == text[-1] == '"':
        return ResultFilter(equal={column: text[1:-1]})
    return ResultFilter(containing={column: text})


def filter_values(request: HttpRequest, table: Table) -> dict[str, str]:
    """Return the filter text of each column. A text that is not one of the possible values is ignored."""
    values = {column: text_parameter(request, column.name) for column in filter_columns(table)}
    return {
        column.name: text if text in (choices_of(column) or (text,)) else ""
        for column, text in values.items()
    }


def table_filter(table: Table, values: dict[str, str]) -> ResultFilter:
    equal: dict[str, str | bool] = {}
    containing: dict[str, str] = {}
    for column in filter_columns(table):
        text = values[column.name]
        if not text:
            continue
        if choices_of(column):
            equal[column.name] = FLAGS.get(text, text)
        else:
            condition = text_filter(column.name, text)
            equal |= condition.equal
            containing |= condition.containing
    return ResultFilter(equal=equal, containing=containing)


def download_urls(
    run: AnalysisRun, table: str, values: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return (title, URL) for each file format. values: the filter text of each column."""
    filters = {name: text for name, text in (values or {}).items() if text}
    query = f"?{urlencode(filters)}" if filters else ""
    return [
        (form.title, reverse("analysis-file", args=[run.pk, table, extension.removeprefix(".")]) + query)
        for extension, form in DOWNLOAD_FORMATS.items()
    ]
