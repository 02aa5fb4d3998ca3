"""The list of API tokens, and the forms that create and revoke a token."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from authzconsole.common.tokens import TokenError, create_token, revoke_token
from authzconsole.models import ApiToken, TokenScope
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import PrincipalLink, principal_link, principal_url
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, name_parameter, text_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from grants.errors import GrantError
from grants.models import User
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 25
DEFAULT_DAYS = 90
STATE_LABELS = {"good": "active", "expired": "expired", "revoked": "revoked"}


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A row in a list of tokens. state: `good` (active), `expired` or `revoked`. state_label: the state as
    text.
    """

    token: ApiToken
    owner: PrincipalLink
    owner_url: str
    scopes: str
    state: str

    @property
    def state_label(self) -> str:
        return STATE_LABELS[self.state]

    @property
    def is_active(self) -> bool:
        return self.state == "good"


def token_row(token: ApiToken, owner: User) -> TokenRow:
    state = "revoked" if token.revoked_at else "expired" if token.ends_at <= timezone.now() else "good"
    scopes = token.scopes.replace(" ", ", ") + (
        " (all subjects, as in version 1.0)" if token.is_unlimited else ""
    )
    return TokenRow(token, principal_link(owner), principal_url("account", str(owner)), scopes, state)


def token_form(form: dict) -> dict:
    """Return the fields of the form for a new token, prefilled with `form`."""
    defaults = {"owner": "", "name": "", "days": str(DEFAULT_DAYS), "selected_scopes": [], "reason": ""}
    return defaults | {"max_days": settings.TOKEN_MAX_DAYS, "scopes": TokenScope.choices} | form


# by the value of the filter
STATES = {
    "good": lambda rows: rows.active(),
    "expired": lambda rows: rows.filter(revoked_at=None).exclude(pk__in=rows.unexpired_tokens().values("pk")),
    "revoked": lambda rows: rows.filter(revoked_at__isnull=False),
}


@require_safe
@capability_required(Capability.READ_ACCOUNTS)
def token_list(request: HttpRequest) -> HttpResponse:
    state, find = (
        choice_parameter(request, "state", STATES),
        text_parameter(request, "find", max_characters=150),
    )
    rows = (
        (STATES[state](ApiToken.objects.all()) if state else ApiToken.objects.all())
        .select_related("owner")
        .order_by("-pk")
    )
    if find:
        rows = rows.filter(Q(name__icontains=find) | Q(owner__username__icontains=find))
    page = paginate_sequence(request, QuerySetSequence(rows), max_rows=ROWS_PER_PAGE, name="page")
    template = "accounts/_tokens.html" if requested_section(request) == "tokens" else "accounts/tokens.html"
    return render_page(
        request,
        template,
        {
            "page": page,
            "rows": [token_row(token, token.owner) for token in page.rows],
            "state": state,
            "states": list(STATE_LABELS.items()),
            "find": find,
            "url": request.path,
            "can_change": request.user.can(Capability.MANAGE_TOKENS),
        },
    )


@sensitive_variables("issued")
@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_TOKENS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def new_token(request: HttpRequest) -> HttpResponse:
    """Create a token. Its secret is shown in this response and never again."""
    if request.method != "POST":
        owner = name_from_input(name_parameter(request, "owner"), "user")
        return _form_response(request, {"owner": owner or request.user.username})
    form = {name: request.POST.get(name, "").strip() for name in ("name", "days", "reason")}
    form["owner"] = name_from_input(request.POST.get("owner", ""), "user")
    form["selected_scopes"] = request.POST.getlist("scope")
    try:
        issued = create_token(
            author=request_author(request, form["reason"]),
            owner=form["owner"],
            name=form["name"],
            scopes=form["selected_scopes"],
            days=_days(form["days"]),
        )
    except (TokenError, GrantError) as error:
        return _form_response(request, form, fault=f"{error}.", status=400)
    return render_page(
        request,
        "accounts/token_issued.html",
        {"row": token_row(issued.token, issued.token.owner), "secret": issued.secret},
    )


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise TokenError(
            f"`{text[:20]}` is not a number of days: enter one from 1 to {settings.TOKEN_MAX_DAYS:,}"
        )
    return int(text)


def _form_response(request: HttpRequest, form: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    return render_page(
        request, "accounts/token_new.html", {"token_form": token_form(form), "fault": fault}, status=status
    )


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_TOKENS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def revoke_token_view(request: HttpRequest, pk: int) -> HttpResponse:
    token = ApiToken.objects.select_related("owner").filter(pk=pk).first()
    if token is None:
        raise Http404("there is no such token")
    if request.method != "POST":
        is_dialog = requested_section(request) == "dialog"
        template = "accounts/_token_revoke_form.html" if is_dialog else "accounts/token_revoke.html"
        return render_page(request, template, {"row": token_row(token, token.owner)})
    try:
        outcome = revoke_token(
            author=request_author(request, request.POST.get("reason", "").strip()), number=pk
        )
    except GrantError as error:
        return render_page(
            request,
            "accounts/token_revoke.html",
            {"row": token_row(token, token.owner), "fault": f"{error}."},
            status=400,
        )
    show_outcome(request, outcome)
    return see_other(reverse("tokens"))
