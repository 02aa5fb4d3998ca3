"""One URL, two answers: the page, and for htmx only the part that it asked for by the id of its target."""

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_cache_control, patch_vary_headers


def render_page(request: HttpRequest, template: str, context: Mapping, *, status: int = 200) -> HttpResponse:
    """A template, kept out of every cache: what it shows depends on who looks."""
    response = render(request, template, context, status=status)
    patch_cache_control(response, private=True, no_store=True)
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response


def requested_section(request: HttpRequest) -> str:
    """The id of the part that htmx asks for; empty where the whole page is wanted."""
    if not request.htmx or request.htmx.history_restore_request:
        return ""
    return request.htmx.target or ""


def see_other(url: str) -> HttpResponseRedirect:
    """After a write: look at the result with GET."""
    response = HttpResponseRedirect(url)
    response.status_code = 303
    return response
