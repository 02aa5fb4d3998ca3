"""Choosing among what lies in an entity, over many pages of it: what is chosen goes along in the URL.

One form holds the filter, the boxes of this page and, unseen, what was chosen on others; every step to another page or filter
sends it, with scripts or without.
"""

from dataclasses import dataclass

from django.http import HttpRequest

from authzconsole.web.shared.paging import Page, url_with
from entities.address import AddressError, parse_address
from grants.plans.sources.bulk import MAX_SELECTED

# what the form has fields of its own for, or what says where in the list one is
OWN = ("address", "kind", "state", "find", "after", "before", "selection")


@dataclass(frozen=True, slots=True)
class Choosing:
    """chosen: as text. elsewhere: those of them that do not stand on this page. kept: further parameters of the page.

    previous, next: the cursors of the pages beside this one, empty at an end. none_url: this page with nothing chosen.
    """

    chosen: frozenset[str]
    elsewhere: list[str]
    kept: list[tuple[str, str]]
    previous: str
    next: str
    none_url: str


def choosing(request: HttpRequest, page: Page) -> Choosing:
    chosen, shown = _chosen(request), {str(entity) for entity in page.rows}
    return Choosing(
        frozenset(chosen), [address for address in chosen if address not in shown],
        [(name, value) for name, values in request.GET.lists() if name not in OWN for value in values],
        str(page.rows[0]) if page.previous_url and page.rows else "", str(page.rows[-1]) if page.next_url else "",
        url_with(request, address=None) if chosen else "",
    )


def _chosen(request: HttpRequest) -> list[str]:
    """Addresses in the order in which they were chosen, no more than a plan takes; what is no address is left out."""
    found = {}
    for text in request.GET.getlist("address"):
        try:
            found[str(parse_address(text))] = None
        except AddressError:
            continue
    return list(found)[:MAX_SELECTED]
