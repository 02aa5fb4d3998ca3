"""The section of the account on the page of a user."""

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from authzconsole.models import ApiToken
from authzconsole.web.accounts.tokens import token_row
from authzconsole.web.forms import ConsoleForm
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page
from authzconsole.web.shared.roles import ROLE_CHOICES, ROLE_LABELS
from grants.models import User
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
        return account_page_response(request, user)
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


def account_page_response(
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
    entered = form.data if form is not None else {}
    can_manage = role_includes(request.user.role, user.role)
    tokens = list(ApiToken.objects.filter(owner=user).order_by("-created_at")[: MAX_TOKENS + 1])
    return {
        "account": user,
        "principal": principal_link(user),
        "url": principal_url("account", str(user)),
        "form": form,
        "email": entered.get("email", user.email),
        "full_name": entered.get("full_name", user.get_full_name()),
        "email_reason": entered.get("reason", ""),
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
        "identities": _identity_rows(user),
    }


def provider_name(provider: str) -> str:
    """Return the name of a sign-in provider; its identifier if it is no longer configured."""
    options = settings.SIGN_IN_PROVIDERS.get(provider)
    return options.name if options else provider


def _identity_rows(user: User) -> list[dict]:
    """Return the identities of an account, oldest first. Runs one query."""
    return [
        {
            "provider": provider_name(link.provider),
            "subject": link.uid,
            "at": link.date_joined,
            "unlink_url": reverse("account-identity-unlink", args=[link.pk]),
        }
        for link in SocialAccount.objects.filter(user=user).order_by("pk")
    ]
