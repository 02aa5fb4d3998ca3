"""What a list is: its rows in order, the members of a row, its filters, and who may read it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers

from analytics.tables import Column, ColumnType, Table
from authzconsole.common.fields import QuerySerializer
from authzconsole.common.output import Output
from authzconsole.common.paging import rows_after
from grants.models import User
from grants.roles.capabilities import Capability


class NoFilters(QuerySerializer):
    """A list without filters."""


class List:
    """A list as one account sees it, with the values of its filters. Subclasses define at least `select`.

    name: of the list in cursors, and of its files.
    output: the members of a row. file_output: those of a line of a file; by default the same.
    order: columns that together are unique; a leading `-` means descending.
    filter_fields: the filters, as REST reads them. A page passes the values that it parsed itself.
    readers: the capabilities of which an account needs one; empty if `select` has only what the
    account may see.
    reads_past: whether rows exist as of earlier revisions, and at other times.
    columns: the members that are in files; by default all. A column is a number, a flag or a text.
    has_objects: whether lines of JSON Lines are the members of a row, instead of those in `columns` as they
    are in CSV.
    extensions: the formats of its files.
    rows_per_read: how many rows of a file are read together.
    """

    name: ClassVar[str]
    output: ClassVar[type[Output]]
    file_output: ClassVar[type[Output] | None] = None
    order: ClassVar[tuple[str, ...]] = ("pk",)
    filter_fields: ClassVar[type[serializers.Serializer]] = NoFilters
    readers: ClassVar[tuple[Capability, ...]] = ()
    reads_past: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ()
    has_objects: ClassVar[bool] = False
    extensions: ClassVar[tuple[str, ...]] = ("csv", "jsonl")
    rows_per_read: ClassVar[int] = 2_000

    def __init__(
        self, account: User, filters: Mapping[str, Any] = {}, subject: Any = None, *, is_valid: bool = True
    ):
        """subject: what the list is about, such as the plan of a list of items. is_valid: whether all filters
        are valid; if not, no row matches.
        """
        self.account, self.filters, self.subject, self.is_valid = account, filters, subject, is_valid

    def select(self) -> QuerySet:
        """Return the rows that match the filters, in any order."""
        raise NotImplementedError

    def rows(self) -> QuerySet:
        """Return the rows in the order of the list."""
        rows = self.select().order_by(*self.order)
        return rows if self.is_valid else rows.none()

    def parts(self) -> Iterable[tuple[QuerySet, tuple[str, ...]]]:
        """Return the rows of each table that the list comes from, one table after the other, with the order."""
        return [(self.rows(), self.order)]

    def members(self, rows: Iterable) -> list[dict]:
        """Return the JSON objects of rows."""
        return list(map(self.output.data_of, rows))

    def identity(self) -> list:
        """Return what must stay the same from page to page, as JSON values, apart from the filters."""
        return [self.name]

    def query_plan(self) -> AbstractContextManager[None]:
        """Return a context in which pages are read."""
        return nullcontext()

    def equal(self, **columns: str) -> dict[str, Any]:
        """Return conditions for the filters that are set. columns: the column of each filter."""
        return {
            column: self.filters[name]
            for name, column in columns.items()
            if self.filters.get(name) not in (None, "")
        }

    def page(self, after: Sequence | None, max_rows: int) -> tuple[list, list | None]:
        """Return a page and the position of its last row; None on the last page. Runs a query for each part.

        after: the position of the previous page. Every page costs as much as the first one.
        """
        first, values = after or (0, None)
        found: list[tuple[int, tuple[str, ...], Any]] = []
        with self.query_plan():
            for number, (part, order) in enumerate(self.parts()):
                if number < first or len(found) > max_rows:
                    continue
                rows = part.order_by(*order)
                if number == first and values is not None:
                    rows = rows.filter(rows_after(order, values))
                found += [(number, order, row) for row in rows[: max_rows + 1 - len(found)]]
        page = [row for _, _, row in found[:max_rows]]
        if len(found) <= max_rows:
            return page, None
        number, order, last = found[max_rows - 1]
        return page, [number, [getattr(last, column.lstrip("-")) for column in order]]

    # files

    @property
    def file_name(self) -> str:
        return self.name

    def all_rows(self) -> Iterator:
        """Yield all rows, in bounded memory."""
        for part, order in self.parts():
            yield from part.order_by(*order).iterator(chunk_size=self.rows_per_read)

    def objects(self) -> Iterator[dict]:
        """Yield the lines of JSON Lines, if `has_objects`."""
        return map(self.output.data_of, self.all_rows())

    def file_rows(self) -> Iterator[dict]:
        """Yield the values of the columns of each line of a file."""
        columns = self.table().columns
        # the first rows are selected at once, so that an error has an error status
        return (
            {column.name: _cell(row[column.name], column) for column in columns} for row in self.objects()
        )

    @classmethod
    def table(cls) -> Table:
        """Return the columns of files."""
        fields = (cls.file_output or cls.output)().fields
        names = cls.columns or tuple(fields)
        return Table(cls.name, tuple(Column(name, _column_type(fields[name])) for name in names), names[:1])


def _column_type(field: serializers.Field) -> ColumnType:
    match field:
        case serializers.IntegerField(allow_null=False):
            return ColumnType.LONG
        case serializers.BooleanField(allow_null=False):
            return ColumnType.FLAG
    return ColumnType.TEXT


def _cell(value: object, column: Column) -> object:
    if column.type != ColumnType.TEXT:
        return value
    return "; ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


class NumberedList(List):
    """A list without a key: a page starts at the number of a row, counted from 0. Subclasses define `slice`."""

    def slice(self, first: int, end: int) -> Sequence:
        """Return the rows from number `first` up to, but without, number `end`."""
        raise NotImplementedError

    def page(self, after, max_rows: int) -> tuple[list, Any]:
        first = after or 0
        # one more than the page has, to know whether another page follows
        rows = self.slice(first, first + max_rows + 1)
        return list(rows[:max_rows]), first + max_rows if len(rows) > max_rows else None
