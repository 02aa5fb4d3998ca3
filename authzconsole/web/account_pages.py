"""The accounts of the console: who signs in, with which role, and what administrators change of one."""

from collections.abc import Callable

from django.contrib import messages
from django.db.models import OuterRef, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from authzconsole import guesses
from authzconsole.models import ApiToken
from authzconsole.web.guard import administrators_only, author_of, overseers_only
from authzconsole.web.paging import page_of_names, url_with
from authzconsole.web.parameters import choice_of, text_of
from authzconsole.web.person import principal_or_404
from authzconsole.web.places import principal_shown, principal_url
from authzconsole.web.rendering import render_page, see_other, target_part
from authzconsole.web.tokens import shown_token, token_form
from grants.errors import GrantError
from grants.journal import Author
from grants.models import Role, User
from grants.people import counted_to
from grants.principals import user_renew_password, user_set_active, user_set_email, user_set_role

ROWS_A_PAGE = 25
MOST_TOKENS = 20
URLS = {"change": "account-change", "password": "account-password", "leaving": "person-leaving"}


@require_safe
@overseers_only
def accounts(request: HttpRequest) -> HttpResponse:
    find, role = text_of(request, "find", most_characters=150), choice_of(request, "role", Role.values)
    rows = User.objects.filter(username__icontains=find, **({"role": role} if role else {}))
    page = page_of_names(request, rows.annotate(total_tokens=counted_to(_good_tokens().filter(owner=OuterRef("pk")))), "username",
                         most_rows=ROWS_A_PAGE)
    fresh = {"after": None, "before": None}
    template = "accounts/_list.html" if target_part(request) == "accounts" else "accounts/list.html"
    return render_page(request, template, {
        "page": page, "find": find, "role": role, "url": request.path, "can_change": request.user.may_administer,
        "rows": [{"user": user, "principal": principal_shown(user), "url": principal_url("account", str(user))}
                 for user in page.rows],
        "roles": [("", "All", url_with(request, role=None, **fresh)),
                  *((value, title, url_with(request, role=value, **fresh)) for value, title in Role.choices)],
    })


def _good_tokens() -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now())


@require_safe
@overseers_only
def account(request: HttpRequest, principal: str) -> HttpResponse:
    return _page(request, _account_or_404(principal))


def _account_or_404(principal: str) -> User:
    found = principal_or_404(principal)
    if not isinstance(found, User):
        raise Http404("groups have no account")
    return found


def _page(request: HttpRequest, user: User, *, fault: str = "", password: str = "", status: int = 200) -> HttpResponse:
    tokens = list(ApiToken.objects.filter(owner=user).order_by("-created_at")[: MOST_TOKENS + 1])
    return render_page(request, "accounts/account.html", {
        "account": user, "principal": principal_shown(user), "url": principal_url("account", str(user)), "fault": fault,
        "password": password, "roles": Role.choices, "role_label": Role(user.role).label,
        "can_sign_in": user.has_usable_password(),
        **{f"{name}_url": principal_url(url_name, str(user)) for name, url_name in URLS.items()},
        "can_change": request.user.may_administer, "is_self": user.pk == request.user.pk, "most_tokens": MOST_TOKENS,
        "tokens": [shown_token(token, user) for token in tokens[:MOST_TOKENS]], "tokens_are_cut": len(tokens) > MOST_TOKENS,
        "token_form": token_form({"owner": user.username}),
    }, status=status)


def _set_role(author: Author, name: str, sent: dict):
    return user_set_role(author=author, name=name, role=sent.get("role", ""))


def _set_email(author: Author, name: str, sent: dict):
    return user_set_email(author=author, name=name, email=sent.get("email", "").strip())


def _set_active(author: Author, name: str, sent: dict):
    return user_set_active(author=author, name=name, active=sent.get("active") == "yes")


# by what a form of the page says that it changes
CHANGES: dict[str, Callable] = {"role": _set_role, "email": _set_email, "activity": _set_active}


@require_POST
@administrators_only
def account_change(request: HttpRequest, principal: str) -> HttpResponse:
    user, change = _account_or_404(principal), CHANGES.get(request.POST.get("change", ""))
    if change is None:
        raise Http404("there is no such change")
    try:
        outcome = change(author_of(request, request.POST.get("reason", "").strip()), user.username, request.POST)
    except GrantError as error:
        return _page(request, user, fault=f"{error}.", status=400)
    messages.add_message(request, messages.SUCCESS if outcome.changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(principal_url("account", principal))


@sensitive_variables("password")
@require_POST
@administrators_only
def account_password(request: HttpRequest, principal: str) -> HttpResponse:
    """A new password, shown on the answer to this and never again."""
    user = _account_or_404(principal)
    try:
        password = user_renew_password(author=author_of(request, request.POST.get("reason", "").strip()), name=user.username)
    except GrantError as error:
        return _page(request, user, fault=f"{error}.", status=400)
    guesses.forget(guesses.passwords(request, user.username)[0])
    return _page(request, _account_or_404(principal), password=password)
