"""What the URL of a report asks for: which rows of a table, and where the same rows are to be had as a file."""

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
CHOICES: dict[str, Sequence[str]] = {"change": CHANGES, "privilege": tuple(Privilege), "state": (State.PLANNED, State.DELETED)}


def filter_columns(table: Table) -> list[Column]:
    """The columns that a page filters by: what tells rows apart, yes and no, and those that hold one of a few words."""
    return [column for column in table.columns
            if choices_of(column) or column.type == ColumnType.TEXT and column.name in table.key]


def choices_of(column: Column) -> dict[str, str]:
    """What its filter takes, with the words for it; none where it takes any text."""
    if column.name == "kind":
        return {kind.name: kind.title for kind in KINDS.values()}
    if column.name == "operation":
        values: Iterable[str] = sorted({operation for kind in KINDS.values() for operation in kind.operations})
    else:
        values = FLAGS if column.type == ColumnType.FLAG else CHOICES.get(column.name, ())
    return {str(value): str(value) for value in values}


def exactly(text: str) -> str:
    """What a filter by text takes for this and nothing else; without the quotes a part would do."""
    return f'"{text}"'


def text_where(column: str, text: str) -> ResultFilter:
    if not text:
        return ResultFilter()
    if len(text) > 2 and text[0] == text[-1] == '"':
        return ResultFilter(equal={column: text[1:-1]})
    return ResultFilter(containing={column: text})


def asked_of(request: HttpRequest, table: Table) -> dict[str, str]:
    """What is asked of each of these columns; empty where a choice is none of its words."""
    asked = {column: text_parameter(request, column.name) for column in filter_columns(table)}
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
            found = text_where(column.name, text)
            equal |= found.equal
            containing |= found.containing
    return ResultFilter(equal=equal, containing=containing)


def download_urls(run: AnalysisRun, table: str, asked: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """The name of each form with the URL of the file of the rows that are asked for."""
    chosen = {name: text for name, text in (asked or {}).items() if text}
    query = f"?{urlencode(chosen)}" if chosen else ""
    return [(form.title, reverse("analysis-file", args=[run.pk, table, extension.removeprefix(".")]) + query)
            for extension, form in DOWNLOAD_FORMATS.items()]
