"""Redirect accounts without a required second factor to the page that sets one up."""

from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from authzconsole.common.second_factor import lacks_required_factor
from authzconsole.web.shared.rendering import see_other

# these pages remain available to such an account
AVAILABLE = {"password", "reauthenticate"}
PREFIX = "second-factor"


class SecondFactorMiddleware:
    """Redirect accounts that lack a second factor, if their console role requires one.

    Sign-out and all views without sign-in remain available. The APIs refuse such a session themselves
    (authzconsole.common.second_factor).
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_view(self, request, view_func, view_args, view_kwargs):
        account, url_name = (
            getattr(request, "impersonator", None) or request.user,
            request.resolver_match.url_name or "",
        )
        if not getattr(view_func, "login_required", True) or not account.is_authenticated:
            return None
        if (
            url_name in AVAILABLE
            or url_name.startswith(PREFIX)
            or not lacks_required_factor(request, account)
        ):
            return None
        url = reverse("second-factor")
        return HttpResponseClientRedirect(url) if request.htmx else see_other(url)
