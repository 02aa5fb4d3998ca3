"""The cells of a report.

The column determines how a value is displayed: user, entity, state, yes or no, number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from analytics.tables import Column, ColumnType
from authzconsole.web.shared.links import (
    AddressLink,
    PrincipalLink,
    address_link_to,
    principal_link_from_text,
)
from entities.address import Address, AddressError, parse_address
from entities.vocabulary import KINDS

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
