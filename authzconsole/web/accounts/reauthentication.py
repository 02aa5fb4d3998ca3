"""Ask for the password or another sign-in at the provider before a sensitive change ("step-up").

    class ChangeSomething(FormPage):
        decorators = (recent_authentication_required,)

If the authentication of the session is older than REAUTHENTICATION_SECONDS, a POST to the view is answered
with a page that asks for the password. The page contains the submitted fields and posts to the same URL, so
that the change continues after the password, and a form that was filled in is not lost. Uploaded files are
not kept.
"""

from collections.abc import Callable
from functools import wraps

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import BACKEND_SESSION_KEY, authenticate
from django.contrib.auth.views import RedirectURLMixin
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.debug import sensitive_post_parameters

from authzconsole.common.recent_authentication import (
    PROVIDER_SESSION_KEY,
    is_recently_authenticated,
    lacks_required_factor,
    record_authentication,
)
from authzconsole.settings.user_directory import LDAP_BACKEND
from authzconsole.web.accounts.sign_in import PasswordAttemptForm, is_password_accepted
from authzconsole.web.forms import FormPage
from authzconsole.web.shared.rendering import referring_page, render_page, see_other

# form fields with this prefix belong to the proof, and are not repeated in the form
FIELD_PREFIX = "reauthentication_"
PASSWORD_FIELD = "reauthentication_password"
# with this parameter, the provider asks for credentials even if its own session is still valid
AGAIN_PARAMETER = "again"


class ProofForm(PasswordAttemptForm, forms.Form):
    """A submitted form of any page, with the password of the account.

    Wrong passwords count like wrong passwords on the sign-in page.
    """

    reauthentication_password = forms.CharField(strip=False, required=False)

    def __init__(self, request: HttpRequest):
        super().__init__(request.POST if request.method == "POST" else request.GET)
        self.request = request

    @property
    def sent_fields(self) -> list[tuple[str, str]]:
        """Return the submitted fields, except the token of the form and the proof."""
        return [
            (name, value)
            for name, values in self.data.lists()
            for value in values
            if name != "csrfmiddlewaretoken" and not name.startswith(FIELD_PREFIX)
        ]

    @property
    def asks_for_password(self) -> bool:
        return (
            self.request.user.has_usable_password()
            or self.request.session.get(BACKEND_SESSION_KEY) == LDAP_BACKEND
        )

    @property
    def has_proof(self) -> bool:
        return self.request.method == "POST" and self.asks_for_password and PASSWORD_FIELD in self.data

    @property
    def provider(self) -> dict | None:
        """Return the name of the provider of the session, and the URL to sign in there again."""
        request = self.request
        provider_id = request.session.get(PROVIDER_SESSION_KEY, "")
        options = settings.SIGN_IN_PROVIDERS.get(provider_id)
        if options is None:
            return None
        # a change returns to the page with its form, because the URL of the change may accept only POST
        form_page = referring_page(request) if request.method == "POST" else ""
        next_page = request.GET.get("next", "") or form_page or request.get_full_path()
        query = {AGAIN_PARAMETER: "yes", "next": next_page}
        return {
            "name": options.name,
            "url": reverse("openid_connect_login", args=[provider_id], query=query),
        }

    def clean_reauthentication_password(self) -> str:
        request, password = self.request, self.cleaned_data[PASSWORD_FIELD]
        with self.throttle_guesses(request, request.user.username, "continue"):
            account = authenticate(request, username=request.user.username, password=password)
            if account is None or account.pk != request.user.pk or not is_password_accepted(account):
                raise ValidationError("This is not your password. Enter it again.")
        return password


def recent_authentication_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let POST requests pass only if the account was authenticated recently; otherwise ask for a proof first.

    Apply it after the access was checked, so that accounts without access are refused first.
    """

    @sensitive_post_parameters(PASSWORD_FIELD)
    @wraps(view)
    def guarded_view(request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.method != "POST" or is_recently_authenticated(request):
            return view(request, *args, **kwargs)
        page = getattr(view, "__self__", None)
        change = page.change_name if isinstance(page, FormPage) else ""
        return _confirm_or_ask(request, change) or view(request, *args, **kwargs)

    return guarded_view


@method_decorator(sensitive_post_parameters(PASSWORD_FIELD), name="dispatch")
class Reauthenticate(RedirectURLMixin, View):
    """Confirm the identity without a change, for example before a session uses the REST API.

    Return to the page `next`.
    """

    http_method_names = ("get", "head", "post")
    next_page = "home"

    def get(self, request: HttpRequest) -> HttpResponse:
        return _form_response(ProofForm(request), status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        if response := _confirm_or_ask(request):
            return response
        messages.success(request, "Your identity is confirmed.")
        return see_other(self.get_success_url())


def _confirm_or_ask(request: HttpRequest, change: str = "") -> HttpResponse | None:
    """Check the proof in the request and record it. change: what is confirmed.

    Return the page that asks for one if it is missing or wrong.
    """
    form = ProofForm(request)
    if not form.has_proof or not form.is_valid():
        return form.limit_response(_form_response(form, status=403, change=change))
    record_authentication(request, "password")
    return None


def _form_response(form: ProofForm, *, status: int, change: str = "") -> HttpResponse:
    """Render the form with the submitted fields.

    It has no navigation for an account that must set up a second factor: that could not load its badges, which
    would leave this page.
    """
    request = form.request
    return render_page(
        request,
        "accounts/reauthentication.html",
        {
            "form": form,
            "change": change,
            "fault": " ".join(form.errors.get(PASSWORD_FIELD, [])) if form.has_proof else "",
            "is_forced": lacks_required_factor(request, request.user),
            "action": request.get_full_path() if request.method == "POST" else request.path,
            "is_change": request.path != reverse("reauthenticate"),
        },
        status=status,
    )
