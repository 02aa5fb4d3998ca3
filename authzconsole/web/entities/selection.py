"""Select children across several pages. The selection is part of the URL.

One form contains the filter, the checkboxes of this page, and hidden fields for the selected entities of
other pages. Every link to another page or filter submits this form, with or without scripts.
"""

from dataclasses import dataclass

from django.http import HttpRequest

from authzconsole.web.shared.paging import Page, url_with
from entities.address import AddressError, parse_address
from grants.plans.sources.bulk import MAX_SELECTED

# parameters that have a form field or select the page
FORM_PARAMETERS = ("address", "kind", "state", "find", "after", "before", "selection")


@dataclass(frozen=True, slots=True)
class AddressSelection:
    """The selected addresses.

    on_other_pages: selected addresses that are not on this page. other_parameters: query parameters without a
    form field.
    previous, next: cursors of the adjacent pages; empty at an end of the list. clear_url: this page without a
    selection.
    """

    selected: frozenset[str]
    on_other_pages: list[str]
    other_parameters: list[tuple[str, str]]
    previous: str
    next: str
    clear_url: str


def selection_of(request: HttpRequest, page: Page) -> AddressSelection:
    selected, on_page = _selected_addresses(request), {str(entity) for entity in page.rows}
    return AddressSelection(
        frozenset(selected),
        [address for address in selected if address not in on_page],
        [
            (name, value)
            for name, values in request.GET.lists()
            if name not in FORM_PARAMETERS
            for value in values
        ],
        str(page.rows[0]) if page.previous_url and page.rows else "",
        str(page.rows[-1]) if page.next_url else "",
        url_with(request, address=None) if selected else "",
    )


def _selected_addresses(request: HttpRequest) -> list[str]:
    """Return the valid selected addresses in the order of selection, at most as many as a plan accepts."""
    addresses = {}
    for text in request.GET.getlist("address"):
        try:
            addresses[str(parse_address(text))] = None
        except AddressError:
            continue
    return list(addresses)[:MAX_SELECTED]
