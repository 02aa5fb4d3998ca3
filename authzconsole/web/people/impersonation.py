"""Seeing the console as somebody else does: for administrators and auditors, and only to look."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from authzconsole.web.people.principal_page import principal_or_404
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.rendering import see_other
from grants.models import User

KEY = "see_as"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# a service's answers are its token's; only pages are looked at as somebody else
NOT_PAGES = ("/api/", "/access/", "/.well-known/", "/static/")


class SeeAsMiddleware:
    """While an account sees as another, `request.user` of every page is the other, `request.looker` the account itself.

    Nothing is written meanwhile: what the other may change is not the looker's to change in that name.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        request.looker = None
        name = request.session.get(KEY)
        if name is not None and not request.path.startswith(NOT_PAGES):
            _look(request, name)
        return self.get_response(request)


def _look(request: HttpRequest, name: str) -> None:
    seen = User.objects.filter(username=name).first()
    if seen is None or not request.user.is_authenticated or not request.user.can_see_all:
        del request.session[KEY]
    elif request.method in SAFE_METHODS:
        request.looker, request.user = request.user, seen
    elif request.path not in (reverse("see-as"), reverse("sign-out")):
        raise PermissionDenied(f"You see the console as {seen}, and change nothing meanwhile. Stop that first.")


@require_POST
@auditor_required
def see_as(request: HttpRequest) -> HttpResponse:
    """user: whose eyes; empty to stop."""
    name, before = request.POST.get("user", ""), request.session.pop(KEY, None)
    if name:
        principal_or_404(f"user:{name}")
        request.session[KEY] = name
        return see_other(reverse("home"))
    messages.info(request, "You see the console as yourself again.")
    return see_other(principal_url("person", f"user:{before}") if before else reverse("home"))
