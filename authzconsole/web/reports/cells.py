"""The cells of a report, each shown by what its column means: a person, a place, a state, a yes or no, a number."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from analytics.tables import Column, ColumnType
from authzconsole.web.shared.links import AddressLink, PrincipalLink, address_link_to, principal_link_from_text
from entities.address import Address, AddressError, parse_address
from entities.vocabulary import KINDS

WORDS = {True: "yes", False: "no"}
# of a table of changes each column stands there twice
BEFORE, AFTER = "_before", "_after"
# which answer of a yes or no is the one that people hope for
HOPED_FOR = {"ready": True, "before": True, "after": True, "nobody_can_delete": False}


@dataclass(frozen=True, slots=True)
class ReportCell:
    """text: as it is without a picture. principal, place, kind, state and mood: as what it is shown, one of them at most.

    mood: good, bad, or quiet where there is nothing to name. before: what it was, where that is something else.
    url: where a text leads.
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
    def words(self) -> str:
        """With what it was."""
        return f"{self.before.text} → {self.text}" if self.before else self.text


def shown_columns(columns: tuple[Column, ...]) -> list[Column]:
    """Those that have a cell: what a row was before stands in the cell of what it is."""
    return [column for column in columns if not column.name.endswith(BEFORE)]


def cell_of(column: Column, row: Mapping, urls: Mapping[str, str]) -> ReportCell:
    """urls: by column, where its cell leads."""
    if not column.name.endswith(AFTER):
        return replace(_cell(column, column.name, row[column.name]), url=urls.get(column.name, ""))
    name = column.name.removesuffix(AFTER)
    before, after = (_cell(column, name, row[name + when]) for when in (BEFORE, AFTER))
    if before.text and after.text and before.text != after.text:
        return replace(after, before=before)
    return after if after.text else before


def _cell(column: Column, name: str, value: str | int | bool | None) -> ReportCell:
    if isinstance(value, bool):
        hoped_for = HOPED_FOR.get(name)
        return ReportCell(WORDS[value], mood="" if hoped_for is None else "good" if value is hoped_for else "bad")
    if isinstance(value, int):
        return ReportCell(f"{value:,}", is_number=True)
    if value and name in MEANINGS:
        return MEANINGS[name](value)
    if value == "" and name in NOTHING:
        return NOTHING[name]
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
        # of a kind that this console had when the report was made
        return ReportCell(address)


def _kind(name: str) -> ReportCell:
    return ReportCell(KINDS[name].title if name in KINDS else name, kind=name)


def _state(name: str) -> ReportCell:
    return ReportCell(name, state=name)


# by the name of the column, what it says where it names nothing
NOTHING = {"admin": ReportCell("nobody", mood="bad"), "namespace": ReportCell("in none", mood="quiet")}
# by the name of the column; what is in none of them is text
MEANINGS: dict[str, Callable[[str], ReportCell]] = {
    "user": _user, "nearest_user": _user, "admin": _user, "principal": _principal, "namespace": _namespace, "entity": _entity,
    "kind": _kind, "state": _state,
}
