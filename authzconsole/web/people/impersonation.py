"""Impersonation: an administrator or auditor sees the console as another user, read-only."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from authzconsole.common.api_caller import SEE_AS_KEY
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.web.forms import ConsoleForm, FormPage, TextField
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import see_other
from grants.models import User
from grants.roles.capabilities import Capability

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# only pages show what the other user sees: APIs answer the account itself, and REST refuses changes of such a
# session
NON_PAGE_PREFIXES = ("/api/", "/access/", "/.well-known/", "/static/")


class SeeAsMiddleware:
    """While an account impersonates a user, set `request.user` to that user and `request.impersonator` to the
    account.

    Without impersonation, `request.impersonator` is None. Writes are refused during impersonation, because
    they would be made in the name of the other user.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        request.impersonator = None
        name = request.session.get(SEE_AS_KEY)
        if name is not None and not request.path.startswith(NON_PAGE_PREFIXES):
            _impersonate(request, name)
        return self.get_response(request)


def _impersonate(request: HttpRequest, name: str) -> None:
    """Set request.user and request.impersonator; end the impersonation if it is no longer allowed.

    Raise PermissionDenied for writes.
    """
    other = User.objects.filter(username=name).first()
    if other is None or not request.user.is_authenticated or not request.user.can(Capability.SEE_AS):
        del request.session[SEE_AS_KEY]
    elif request.method in SAFE_METHODS:
        request.impersonator, request.user = request.user, other
    elif request.path not in (reverse("see-as"), reverse("sign-out")):
        raise PermissionDenied(
            f"You are seeing the console as {other} and cannot change anything. Choose Stop first."
        )


class SeeAsForm(ConsoleForm):
    user = TextField(strip=False)


class SeeAs(FormPage):
    """Start impersonating the posted `user`; stop if it is empty."""

    http_method_names = ("post",)
    capabilities = (Capability.SEE_AS,)
    form_class = SeeAsForm

    def perform(self, form: SeeAsForm) -> HttpResponse:
        request, name = self.request, form.cleaned_data["user"]
        previous_name = request.session.pop(SEE_AS_KEY, None)
        if name:
            principal_or_404(f"user:{name}")
            request.session[SEE_AS_KEY] = name
            record_event(EventKind.SEE_AS_START, request=request, target=f"user:{name}")
            return see_other(reverse("home"))
        if previous_name:
            record_event(EventKind.SEE_AS_STOP, request=request, target=f"user:{previous_name}")
        messages.info(request, "You see the console as yourself again.")
        return see_other(
            principal_url("person", f"user:{previous_name}") if previous_name else reverse("home")
        )
