"""The section of the account on the page of a user, and the forms that change its role, names, email,
activity and password.
"""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from authzconsole.models import ApiToken
from authzconsole.web.accounts.change_forecast import AccountForecast, change_forecast, password_forecast
from authzconsole.web.accounts.email_field import email_from_form
from authzconsole.web.accounts.providers.link_pages import identity_rows
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.accounts.tokens import token_row
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import ConsoleForm, FlagField, TextField, reason_field
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from authzconsole.web.shared.roles import ROLE_CHOICES, ROLE_LABELS
from grants.change_set import Activate, Deactivate
from grants.changes import ChangeSet, Outcome
from grants.journal import Author
from grants.models import User
from grants.principals.services import (
    renew_user_password,
    set_full_name,
    set_user_email,
    set_user_role,
)
from grants.roles.capabilities import Capability, role_includes

MAX_TOKENS = 20
# the change that changes permissions
ACTIVITY = "activity"
URL_NAMES = {
    "change": "account-change",
    "password": "account-password",
    "sessions": "account-sessions",
    "second_factor": "account-second-factor",
}


@require_safe
@capability_required(Capability.READ_ACCOUNTS)
def account_list(request: HttpRequest) -> HttpResponse:
    """Redirect to the list of users, which has all accounts."""
    return redirect(
        url_with_query("people", {name: text_parameter(request, name) for name in ("find", "role")})
    )


@require_safe
@capability_required(Capability.READ_ACCOUNTS)
def account_page(request: HttpRequest, principal: str) -> HttpResponse:
    """Redirect to the section of the account on the page of the user, which accounts that see no grants
    cannot open.
    """
    user = account_or_404(principal)
    if not request.user.can_see_all:
        return _page_response(request, user)
    return redirect(f"{principal_url('person', str(user))}#account")


def account_section(request: HttpRequest, user: User) -> SafeString:
    """Render the section of the account for the page of the user. Runs three queries."""
    return render_to_string("accounts/_account.html", _context(request, user), request)


def account_or_404(principal: str) -> User:
    """Return the user that a string such as `user:alice` names. Raise Http404 if there is none."""
    user = principal_or_404(principal)
    if not isinstance(user, User):
        raise Http404("groups have no account")
    return user


def _managed_account_or_404(request: HttpRequest, principal: str) -> User:
    """Return the user.

    Raise PermissionDenied if the role of the signed-in account does not include the role of the user.
    """
    user = account_or_404(principal)
    if not role_includes(request.user.role, user.role):
        raise PermissionDenied(
            f"This account has the role {ROLE_LABELS[user.role]}, which can do more than yours. Ask an "
            "administrator."
        )
    return user


def _page_response(
    request: HttpRequest,
    user: User,
    *,
    form: ConsoleForm | None = None,
    password: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the answer to a form. form: the refused one. password: shown once."""
    context = _context(request, user, form=form, password=password)
    return render_page(request, "accounts/account.html", context, status=status)


def _context(
    request: HttpRequest,
    user: User,
    *,
    form: ConsoleForm | None = None,
    password: str = "",
) -> dict:
    details = {"email": user.email, "full_name": user.get_full_name(), "reason": ""}
    if form is not None and form["change"].value() in ("email", "full-name"):
        details = form.cleaned_data
    can_manage = role_includes(request.user.role, user.role)
    tokens = list(ApiToken.objects.filter(owner=user).order_by("-created_at")[: MAX_TOKENS + 1])
    return {
        "account": user,
        "principal": principal_link(user),
        "url": principal_url("account", str(user)),
        "form": form,
        "email": details["email"],
        "full_name": details["full_name"],
        "email_reason": details["reason"],
        "password": password,
        "first_password_hours": settings.FIRST_PASSWORD_HOURS,
        "roles": [choice for choice in ROLE_CHOICES if role_includes(request.user.role, choice[0])],
        "role_label": ROLE_LABELS[user.role],
        "can_sign_in": user.has_usable_password(),
        "has_providers": bool(settings.SIGN_IN_PROVIDERS),
        **{f"{name}_url": principal_url(url_name, str(user)) for name, url_name in URL_NAMES.items()},
        "can_change": can_manage and request.user.can(Capability.MANAGE_ACCOUNTS),
        "is_self": user.pk == request.user.pk,
        "max_tokens": MAX_TOKENS,
        "tokens": [token_row(token, user) for token in tokens[:MAX_TOKENS]],
        "has_more_tokens": len(tokens) > MAX_TOKENS,
        "can_create_token": can_manage
        and request.user.can(Capability.MANAGE_TOKENS)
        and user.is_active
        and (user.is_service or user.pk == request.user.pk),
        "identities": identity_rows(user),
    }


class AccountForm(ConsoleForm):
    """A change of an account. change: `role`, `email`, `full-name` or `activity`; it has the field of the same name,
    except that `activity` has `active`.
    """

    change = TextField()
    role = TextField()
    email = TextField()
    full_name = TextField()
    active = FlagField()
    reason = reason_field()


class AccountConfirmation(EffectPage):
    """Show the forecast of a change to an account, as a page or in the dialog, and make the change on POST."""

    capabilities = (Capability.MANAGE_ACCOUNTS,)
    visible_to = (Capability.READ_ACCOUNTS,)
    decorators = (recent_authentication_required,)
    form_class = AccountForm
    has_forecast = True

    def prepare(self) -> None:
        self.user = _managed_account_or_404(self.request, self.kwargs["principal"])

    def get_template_names(self) -> list[str]:
        is_dialog = requested_section(self.request) == "dialog"
        return ["accounts/_change_form.html" if is_dialog else "accounts/change.html"]

    @property
    def shows_effect(self) -> bool:
        return False

    def forecast(self) -> AccountForecast:
        raise NotImplementedError

    def form_refused(self, form: ConsoleForm, error: Exception) -> HttpResponse:
        return _page_response(self.request, self.user, form=form, status=400)

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "account": self.user,
            "forecast": self.forecast(),
            "action": self.request.path,
            "back": principal_url("account", str(self.user)),
        }


class ChangeAccount(AccountConfirmation):
    """Change the role, the names, the email or the activity of an account."""

    def prepare(self) -> None:
        super().prepare()
        self.values = AccountForm.sent(self.request).cleaned_data
        if self.values["change"] not in (*SERVICES, ACTIVITY):
            raise Http404("there is no such change")

    @property
    def shows_effect(self) -> bool:
        """Only changes of the activity change permissions, and accounts that see no grants do not see them."""
        return self.values["change"] == ACTIVITY and self.request.user.can_see_all

    def effect(self, form: ConsoleForm) -> dict:
        return self.effect_context(form, self.change_set(form))

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        return ChangeSet.of((Activate if self.values["active"] else Deactivate)(self.user.username))

    def make(self, form: ConsoleForm) -> Outcome:
        change = self.values["change"]
        if change == ACTIVITY:
            return super().make(form)
        author = request_author(self.request, self.values["reason"])
        return SERVICES[change](author, self.user.username, self.values)

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        return see_other(principal_url("account", str(self.user)))

    def forecast(self) -> AccountForecast:
        return change_forecast(self.user, self.values, shows_grants=self.request.user.can_see_all)


def _set_role(author: Author, name: str, values: dict) -> Outcome:
    return set_user_role(author=author, name=name, role=values["role"])


def _set_email(author: Author, name: str, values: dict) -> Outcome:
    return set_user_email(author=author, name=name, email=email_from_form(values))


def _set_full_name(author: Author, name: str, values: dict) -> Outcome:
    return set_full_name(author=author, name=name, full_name=values["full_name"])


# by the field `change` of a form
SERVICES: dict[str, Callable] = {
    "role": _set_role,
    "email": _set_email,
    "full-name": _set_full_name,
}


@method_decorator(sensitive_variables("password"), name="perform")
class RenewPassword(AccountConfirmation):
    """Generate a password. It is shown in this response and never again."""

    def perform(self, form: ConsoleForm) -> HttpResponse:
        author = request_author(self.request, form.cleaned_data["reason"])
        password = renew_user_password(author=author, name=self.user.username)
        return _page_response(self.request, account_or_404(str(self.user)), password=password)

    def forecast(self) -> AccountForecast:
        return password_forecast(self.user)
