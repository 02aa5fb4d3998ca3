"""Read pages as a browser shows them."""

from collections.abc import Iterable

from authzconsole.web.shared.privilege_cells import LETTERS, PrivilegeCell


def page_html(response) -> str:
    """Return the HTML of a response with every run of whitespace collapsed into one space."""
    return " ".join(response.content.decode().split())


def held_cells(cells: Iterable[PrivilegeCell]) -> dict[str, str]:
    """Return the status of each privilege that is held, by letter. Check that there is a cell for every privilege."""
    statuses = {cell.letter: cell.status for cell in cells}
    assert list(statuses) == list(LETTERS.values())
    return {letter: status for letter, status in statuses.items() if status != "none"}
