"""The section of the account on the page of a user, and the forms that change its role, names, email,
activity and password.
"""

from collections.abc import Callable, Mapping

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from authzconsole.models import ApiToken
from authzconsole.web.accounts.change_forecast import AccountForecast, change_forecast, password_forecast
from authzconsole.web.accounts.email_field import email_from_form
from authzconsole.web.accounts.providers.link_pages import identity_rows
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.accounts.tokens import token_form, token_row
from authzconsole.web.effects.forms import NOT_AS_SHOWN, effect_context, refusal_text, shown_effect
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from authzconsole.web.shared.roles import ROLE_CHOICES, ROLE_LABELS
from grants.change_set import Activate, Deactivate
from grants.changes import ChangeSet, apply
from grants.errors import GrantError
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
    fault: str = "",
    email: Mapping[str, str] | None = None,
    password: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the answer to a form. email: the refused values of the form of the details. password: shown
    once.
    """
    context = _context(request, user, fault=fault, email=email, password=password)
    return render_page(request, "accounts/account.html", context, status=status)


def _context(
    request: HttpRequest,
    user: User,
    *,
    fault: str = "",
    email: Mapping[str, str] | None = None,
    password: str = "",
) -> dict:
    form = email or {"email": user.email, "full_name": user.get_full_name(), "reason": ""}
    can_manage = role_includes(request.user.role, user.role)
    tokens = list(ApiToken.objects.filter(owner=user).order_by("-created_at")[: MAX_TOKENS + 1])
    return {
        "account": user,
        "principal": principal_link(user),
        "url": principal_url("account", str(user)),
        "fault": fault,
        "email": form.get("email", ""),
        "full_name": form.get("full_name", ""),
        "email_reason": form.get("reason", ""),
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
        "token_form": token_form({"owner": user.username}),
        "identities": identity_rows(user),
    }


def _set_role(author: Author, name: str, form: dict):
    return set_user_role(author=author, name=name, role=form.get("role", ""))


def _set_email(author: Author, name: str, form: dict):
    return set_user_email(author=author, name=name, email=email_from_form(form))


def _set_full_name(author: Author, name: str, form: dict):
    return set_full_name(author=author, name=name, full_name=form.get("full_name", ""))


# by the field `change` of a form; `activity` changes permissions, and has an effect
CHANGES: dict[str, Callable] = {
    "role": _set_role,
    "email": _set_email,
    "full-name": _set_full_name,
}


def _confirmation_response(
    request: HttpRequest,
    user: User,
    forecast: AccountForecast,
    *,
    effect: dict | None = None,
    fault: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the forecast and the form that confirms the change, as a page or in the dialog. effect: on
    permissions, if any.
    """
    template = (
        "accounts/_change_form.html" if requested_section(request) == "dialog" else "accounts/change.html"
    )
    return render_page(
        request,
        template,
        {
            "account": user,
            "forecast": forecast,
            "action": request.path,
            "effect": effect,
            "fault": fault,
            "back": principal_url("account", str(user)),
        },
        status=status,
    )


def _activation(user: User, form: Mapping[str, str]) -> ChangeSet:
    """Return the change of the status in a form."""
    return ChangeSet.of((Activate if form.get("active") == "yes" else Deactivate)(user.username))


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_ACCOUNTS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def change_account(request: HttpRequest, principal: str) -> HttpResponse:
    form = request.POST if request.method == "POST" else request.GET
    user, name = _managed_account_or_404(request, principal), form.get("change", "")
    is_activity = name == "activity"
    if name not in CHANGES and not is_activity:
        raise Http404("there is no such change")
    # accounts that do not see grants see no effect
    has_effect = is_activity and request.user.can_see_all
    if request.method != "POST":
        forecast = change_forecast(user, name, form, shows_grants=request.user.can_see_all)
        effect = effect_context(request, _activation(user, form), has_forecast=True) if has_effect else None
        return _confirmation_response(request, user, forecast, effect=effect)
    author = request_author(request, form.get("reason", "").strip())
    try:
        if is_activity:
            shown = shown_effect(request) if has_effect else None
            outcome = apply(_activation(user, form), author=author, shown=shown)
        else:
            outcome = CHANGES[name](author, user.username, form)
    except NOT_AS_SHOWN as error:
        fault, status = refusal_text(error)
        return _confirmation_response(
            request,
            user,
            change_forecast(user, name, form),
            fault=fault,
            status=status,
            effect=effect_context(request, error.preview, has_forecast=True),
        )
    except GrantError as error:
        refused = form if name in ("email", "full-name") else None
        return _page_response(request, user, fault=f"{error}.", email=refused, status=400)
    show_outcome(request, outcome)
    return see_other(principal_url("account", principal))


@sensitive_variables("password")
@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_ACCOUNTS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def renew_password(request: HttpRequest, principal: str) -> HttpResponse:
    """Generate a password. It is shown in this response and never again."""
    user = _managed_account_or_404(request, principal)
    if request.method != "POST":
        return _confirmation_response(request, user, password_forecast(user))
    try:
        password = renew_user_password(
            author=request_author(request, request.POST.get("reason", "").strip()), name=user.username
        )
    except GrantError as error:
        return _page_response(request, user, fault=f"{error}.", status=400)
    return _page_response(request, account_or_404(principal), password=password)
