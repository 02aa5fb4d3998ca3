"""Error pages: not found, method not allowed, expired forms, and errors that a view did not handle."""

import sys

from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_cache_control

from authzconsole.common.database import is_database_unavailable
from authzconsole.common.problems import Problem, problem_of
from authzconsole.web.context_processors import navigation
from authzconsole.web.forms import ConsoleForm, TextField
from authzconsole.web.shared.guard import InvalidAddress
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.rendering import see_other
from entities.errors import Refusal
from grants.errors import JournalReadOnly


class NextForm(ConsoleForm):
    """The field of the sign-in form with the page to which it leads."""

    next = TextField()


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Explain an invalid address. For a valid address, do not reveal whether an entity exists at it."""
    fault = str(exception) if isinstance(exception, InvalidAddress) else ""
    return render(
        request,
        "404.html",
        {"fault": fault, "request_url": "" if fault else _request_url(request)},
        status=404,
    )


def _request_url(request: HttpRequest) -> str:
    """Return the URL that requests access to the address of an entity page, whether or not it exists;
    otherwise empty.
    """
    match, user = getattr(request, "resolver_match", None), getattr(request, "user", None)
    if (
        match is None
        or match.url_name != "entity"
        or user is None
        or not user.is_authenticated
        or user.can_see_all
    ):
        return ""
    return url_with_query("request-new", {"entity": match.kwargs["address"]})


def server_error(request: HttpRequest) -> HttpResponse:
    """Return a page with the request id, which is in every log line of this request. The status is 503
    without a database.

    No context processor runs, because it might have caused the error.
    """
    problem = problem_of(sys.exc_info()[1]) or Problem(500, "")
    page = render_to_string(
        "500.html", {"request_id": request.id, "is_database_unavailable": problem.status == 503}
    )
    return HttpResponse(page, status=problem.status, headers=problem.headers)


def problem_page(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Return the page for an error that a request expects; None for other errors, and without a database,
    which every page needs.
    """
    if is_database_unavailable(error) or (problem := problem_of(error)) is None:
        return None
    context = {
        "problem": problem,
        "read_only_reason": str(error) if isinstance(error, JournalReadOnly) else "",
        "is_refused": isinstance(error, Refusal),
    }
    response = render(request, "problem.html", context, status=problem.status)
    for name, value in problem.headers.items():
        response[name] = value
    return response


def method_not_allowed(request: HttpRequest, response: HttpResponseNotAllowed) -> HttpResponse:
    """Replace the empty body of a 405 response with a page that links to the area of the URL."""
    items = [
        item for item in navigation(request).get("nav_items", ()) if request.path.startswith(item["url"])
    ]
    nav_item = max(
        items, key=lambda item: len(item["url"]), default={"title": "Sign in", "url": reverse("sign-in")}
    )
    page = render(request, "405.html", {"nav_item": nav_item, "accepts_form": "GET" not in response["Allow"]})
    # return the same response object, because Django has already logged it
    response["Content-Type"], response.content = page["Content-Type"], page.content
    patch_cache_control(response, private=True, no_store=True)
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Refuse a form with the CSRF token of an earlier sign-in.

    If another tab has signed in meanwhile, the sign-in form redirects instead of showing an error.
    """
    if request.path == reverse("sign-in") and request.user.is_authenticated:
        messages.info(request, f"You are already signed in as {request.user.username}.")
        query = {REDIRECT_FIELD_NAME: NextForm.sent(request).cleaned_data["next"]}
        return see_other(reverse("sign-in", query=query))
    return render(request, "403_csrf.html", status=403)
