"""What the URL of a report asks for: which rows of a table, and where the same rows are to be had as a file."""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from analytics.comparison import CHANGES
from analytics.export import FORMS_FOR_PEOPLE
from analytics.models import AnalysisRun
from analytics.results import ResultFilter
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.parameters import text_of

FLAGS = {"yes": True, "no": False}


def filter_columns(table: Table) -> list[Column]:
    """The columns that a page filters by: what tells rows apart, yes and no, and how a row changed."""
    return [column for column in table.columns
            if column.type == ColumnType.FLAG or column.name == "change"
            or column.type == ColumnType.TEXT and column.name in table.key]


def choices_of(column: Column) -> tuple[str, ...]:
    """The words that its filter takes; none where it takes any text."""
    if column.type == ColumnType.FLAG:
        return tuple(FLAGS)
    return CHANGES if column.name == "change" else ()


def asked_of(request: HttpRequest, table: Table) -> dict[str, str]:
    """What is asked of each of these columns; empty where a choice is none of its words."""
    asked = {column: text_of(request, column.name) for column in filter_columns(table)}
    return {column.name: text if text in (choices_of(column) or (text,)) else "" for column, text in asked.items()}


def table_where(table: Table, asked: dict[str, str]) -> ResultFilter:
    equal: dict[str, str | bool] = {}
    containing: dict[str, str] = {}
    for column in filter_columns(table):
        text = asked[column.name]
        if not text:
            continue
        if choices_of(column):
            equal[column.name] = FLAGS.get(text, text)
        else:
            containing[column.name] = text
    return ResultFilter(equal=equal, containing=containing)


def download_urls(run: AnalysisRun, table: str, asked: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """The name of each form with the URL of the file of the rows that are asked for."""
    chosen = {name: text for name, text in (asked or {}).items() if text}
    query = f"?{urlencode(chosen)}" if chosen else ""
    return [(form.title, reverse("analysis-file", args=[run.pk, table, extension.removeprefix(".")]) + query)
            for extension, form in FORMS_FOR_PEOPLE.items()]
