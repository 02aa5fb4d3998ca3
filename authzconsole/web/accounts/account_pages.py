"""The list of accounts, the page of one account, and the forms that change its role, email, activity and password."""

from collections.abc import Callable, Mapping

from django.conf import settings
from django.contrib import messages
from django.db.models import OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from authzconsole.models import ApiToken
from authzconsole.web.accounts.change_forecast import AccountForecast, change_forecast, password_forecast
from authzconsole.web.accounts.email_field import email_from_form
from authzconsole.web.accounts.providers.link_pages import identity_rows
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.accounts.tokens import token_form, token_row
from authzconsole.web.shared.guard import administrator_required, auditor_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import paginate_names, url_with
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.roles import ROLE_CHOICES, ROLE_LABELS
from grants.errors import GrantError
from grants.journal import Author
from grants.models import User
from grants.principals.principal_lists import MAX_COUNTED, capped_count_subquery
from grants.principals.services import renew_user_password, set_user_active, set_user_email, set_user_role

ROWS_PER_PAGE = 25
MAX_TOKENS = 20
URL_NAMES = {"change": "account-change", "password": "account-password", "off_board": "person-off-board",
             "sessions": "account-sessions", "second_factor": "account-second-factor"}


@require_safe
@auditor_required
def account_list(request: HttpRequest) -> HttpResponse:
    find, role = text_parameter(request, "find", max_characters=150), choice_parameter(request, "role", ROLE_LABELS)
    rows = User.objects.filter(username__icontains=find, **({"role": role} if role else {}))
    total_tokens = capped_count_subquery(ApiToken.objects.active().filter(owner=OuterRef("pk")))
    page = paginate_names(request, rows.annotate(total_tokens=total_tokens), "username", max_rows=ROWS_PER_PAGE)
    first_page = {"after": None, "before": None}
    template = "accounts/_list.html" if requested_section(request) == "accounts" else "accounts/list.html"
    return render_page(request, template, {
        "page": page, "find": find, "role": role, "url": request.path, "can_change": request.user.can_administer,
        "max_counted": MAX_COUNTED,
        "rows": [{"user": user, "role": ROLE_LABELS[user.role], "url": principal_url("account", str(user))}
                 for user in page.rows],
        "roles": [("", "All", url_with(request, role=None, **first_page)),
                  *((value, title, url_with(request, role=value, **first_page)) for value, title in ROLE_CHOICES)],
    })


@require_safe
@auditor_required
def account_page(request: HttpRequest, principal: str) -> HttpResponse:
    return _page_response(request, account_or_404(principal))


def account_or_404(principal: str) -> User:
    """Return the user that a string such as `user:alice` names. Raise Http404 if there is none."""
    user = principal_or_404(principal)
    if not isinstance(user, User):
        raise Http404("groups have no account")
    return user


def _page_response(request: HttpRequest, user: User, *, fault: str = "", email: Mapping[str, str] | None = None,
                   password: str = "", status: int = 200) -> HttpResponse:
    """Render the page. email: the refused values of the email form. password: a new password, which is shown once."""
    form = email or {"email": user.email, "reason": ""}
    tokens = list(ApiToken.objects.filter(owner=user).order_by("-created_at")[: MAX_TOKENS + 1])
    return render_page(request, "accounts/account.html", {
        "account": user, "principal": principal_link(user), "url": principal_url("account", str(user)), "fault": fault,
        "email": form.get("email", ""), "email_reason": form.get("reason", ""),
        "password": password, "first_password_hours": settings.FIRST_PASSWORD_HOURS,
        "roles": ROLE_CHOICES, "role_label": ROLE_LABELS[user.role],
        "can_sign_in": user.has_usable_password(), "has_providers": bool(settings.SIGN_IN_PROVIDERS),
        **{f"{name}_url": principal_url(url_name, str(user)) for name, url_name in URL_NAMES.items()},
        "can_change": request.user.can_administer, "is_self": user.pk == request.user.pk, "max_tokens": MAX_TOKENS,
        "tokens": [token_row(token, user) for token in tokens[:MAX_TOKENS]], "has_more_tokens": len(tokens) > MAX_TOKENS,
        "can_create_token": request.user.can_administer and user.is_active and (user.is_service or user.pk == request.user.pk),
        "token_form": token_form({"owner": user.username}), "identities": identity_rows(user),
    }, status=status)


def _set_role(author: Author, name: str, form: dict):
    return set_user_role(author=author, name=name, role=form.get("role", ""))


def _set_email(author: Author, name: str, form: dict):
    return set_user_email(author=author, name=name, email=email_from_form(form))


def _set_active(author: Author, name: str, form: dict):
    return set_user_active(author=author, name=name, active=form.get("active") == "yes")


# by the field `change` of a form
CHANGES: dict[str, Callable] = {"role": _set_role, "email": _set_email, "activity": _set_active}


def _confirmation_response(request: HttpRequest, user: User, forecast: AccountForecast) -> HttpResponse:
    """Render the forecast and the form that confirms the change, as a page or in the dialog."""
    template = "accounts/_change_form.html" if requested_section(request) == "dialog" else "accounts/change.html"
    return render_page(request, template, {"account": user, "forecast": forecast, "action": request.path,
                                           "back": principal_url("account", str(user))})


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
@recent_authentication_required
def change_account(request: HttpRequest, principal: str) -> HttpResponse:
    form = request.POST if request.method == "POST" else request.GET
    user, name = account_or_404(principal), form.get("change", "")
    if name not in CHANGES:
        raise Http404("there is no such change")
    if request.method != "POST":
        return _confirmation_response(request, user, change_forecast(user, name, form))
    try:
        outcome = CHANGES[name](request_author(request, form.get("reason", "").strip()), user.username, form)
    except GrantError as error:
        return _page_response(request, user, fault=f"{error}.", email=form if name == "email" else None, status=400)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(principal_url("account", principal))


@sensitive_variables("password")
@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
@recent_authentication_required
def renew_password(request: HttpRequest, principal: str) -> HttpResponse:
    """Generate a password. It is shown in this response and never again."""
    user = account_or_404(principal)
    if request.method != "POST":
        return _confirmation_response(request, user, password_forecast(user))
    try:
        password = renew_user_password(author=request_author(request, request.POST.get("reason", "").strip()), name=user.username)
    except GrantError as error:
        return _page_response(request, user, fault=f"{error}.", status=400)
    return _page_response(request, account_or_404(principal), password=password)
