"""Render pages.

Each URL returns the whole page; for htmx, only the section with the id in the HX-Target header.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_cache_control, patch_vary_headers

from authzconsole.common.messages import as_sentence
from grants.outcomes import Outcome


def render_page(request: HttpRequest, template: str, context: Mapping, *, status: int = 200) -> HttpResponse:
    """Render a template. The response is never cached, because its content depends on the account."""
    response = render(request, template, context, status=status)
    patch_cache_control(response, private=True, no_store=True)
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response


def requested_section(request: HttpRequest) -> str:
    """Return the id of the section that htmx requests; empty if the whole page is requested."""
    if not request.htmx or request.htmx.history_restore_request:
        return ""
    return request.htmx.target or ""


def show_outcome(request: HttpRequest, outcome: Outcome) -> None:
    """Let the next page show the result of a change: as a success, or as information if nothing changed."""
    level = messages.SUCCESS if outcome.has_changed else messages.INFO
    messages.add_message(request, level, as_sentence(outcome.sentence))


def see_other(url: str) -> HttpResponseRedirect:
    """Redirect with 303 after a write, so that the browser gets the result with GET."""
    response = HttpResponseRedirect(url)
    response.status_code = 303
    return response


def referring_page(request: HttpRequest) -> str:
    """Return the path of the referring page; empty if the referrer is missing, malformed or on another host."""
    try:
        referrer = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return ""
    return (
        urlunsplit(("", "", referrer.path, referrer.query, ""))
        if referrer.netloc == request.get_host()
        else ""
    )
