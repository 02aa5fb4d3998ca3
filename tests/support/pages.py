"""Read pages as a browser shows them."""

import re
from collections.abc import Iterable
from html import unescape

from authzconsole.web.shared.privilege_cells import LETTERS, PrivilegeCell


def page_html(response) -> str:
    """Return the HTML of a response with every run of whitespace collapsed into one space."""
    return " ".join(response.content.decode().split())


def text_of(response) -> str:
    """Return the text of a page without tags; code is in backticks."""
    text = re.sub(r"</?code>", "`", response.content.decode().replace("<wbr>", ""))
    return unescape(re.sub(r"(<[^>]+>|\s)+", " ", text))


def held_cells(cells: Iterable[PrivilegeCell]) -> dict[str, str]:
    """Return the status of each privilege that is held, by letter.

    Check that there is a cell for every privilege.
    """
    statuses = {cell.letter: cell.status for cell in cells}
    assert list(statuses) == list(LETTERS.values())
    return {letter: status for letter, status in statuses.items() if status != "none"}


def with_effect(url: str) -> str:
    """Return the URL of the second page, with which browsers without scripts show the effect of a change."""
    return f"{url}{'&' if '?' in url else '?'}preview=yes"


def shown_effect(response) -> dict[str, str]:
    """Return the hidden fields with which a form confirms the effect that it shows; empty if it shows none."""
    return dict(re.findall(r'name="(effect|effect_of)" value="([^"]*)"', page_html(response)))


def shown_effect_of_plan(client, plan) -> dict[str, str]:
    """Return the hidden fields with which the page of a plan confirms its effect; empty if it cannot be applied."""
    return shown_effect(client.get(with_effect(f"/plans/{plan.pk}/")))


def post_as_shown(client, url: str, form: dict, **options):
    """Post a form.

    If the response shows an effect first, post the form again to confirm it. Return the last response.
    """
    response = client.post(url, form, **options)
    fields = shown_effect(response) if response.status_code == 200 else {}
    return client.post(url, form | fields, **options) if fields else response


def without_tokens(response) -> str:
    """Return the page without CSRF tokens, which differ in each response."""
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", response.content.decode())


def form_faults(response) -> str:
    """Return the messages of the form of a page."""
    return " ".join(fault for faults in response.context["form"].errors.values() for fault in faults)
