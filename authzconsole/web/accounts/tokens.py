"""The list of API tokens, and the forms that create and revoke a token."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from authzconsole.common.tokens import create_token, revoke_token
from authzconsole.models import ApiToken, TokenScope
from authzconsole.web.accounts.account_pages import ConfirmationPage, Forecast
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import (
    ConsoleForm,
    FormPage,
    NumberField,
    PrincipalField,
    TextField,
    TextsField,
    reason_field,
)
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.address import instance_address
from entities.vocabulary import Privilege
from grants.changes import Outcome
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 25
DEFAULT_DAYS = 90


class TokenForm(ConsoleForm):
    """A new token. days: until it expires."""

    id_pattern = "token-%s"

    owner = PrincipalField(
        only="user",
        label="Owner",
        placeholder="NAME",
        required=True,
        help_text="Your own account or a service account.",
    )
    name = TextField(label="Name", required=True, max_characters=100)
    scope = TextsField(label="Scopes", choices=TokenScope.choices)
    days = NumberField(label="Days until it expires", required=True, initial=str(DEFAULT_DAYS))
    reason = reason_field()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["days"].help_text = f"From 1 to {settings.TOKEN_MAX_DAYS:,}."


# by the state of a token
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
    page = paginate_sequence(request, rows, max_rows=ROWS_PER_PAGE, name="page")
    template = "accounts/_tokens.html" if requested_section(request) == "tokens" else "accounts/tokens.html"
    return render_page(
        request,
        template,
        {
            "page": page,
            "state": state,
            "find": find,
            "url": request.path,
            "can_change": request.user.can(Capability.MANAGE_TOKENS),
        },
    )


def first_call(token: ApiToken, secret: str) -> str:
    """Return shell commands that make a first request within the scopes of the token. They change nothing."""
    scopes = token.scopes.split()
    instance = instance_address()
    if TokenScope.READ in scopes:
        path, body = "/api/v1/entities?limit=5", None
    elif TokenScope.PROVISION in scopes:
        path, body = "/scim/v2/Users?count=5", None
    elif TokenScope.ADMINISTER in scopes:
        grant = {
            "principal": f"user:{token.owner.username}",
            "entity": str(instance),
            "privileges": [Privilege.READ],
        }
        path, body = "/api/v1/grants", {"grant": [grant], "dry_run": True}
    else:
        path, body = (
            "/access/v1/evaluation",
            {
                "subject": {"type": "user", "id": token.owner.username},
                "action": {"name": Privilege.READ},
                "resource": {"type": instance.kind, "id": instance.key},
            },
        )
    request = f"""curl -sS -H "Authorization: Bearer $TOKEN" {shlex.quote(settings.PUBLIC_URL + path)}"""
    if body is not None:
        request += f" -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    return f"TOKEN={secret}\n{request}"


@method_decorator(sensitive_variables("issued"), name="perform")
class NewToken(FormPage):
    """Create a token. Its secret is shown in this response and never again."""

    capabilities = (Capability.MANAGE_TOKENS,)
    visible_to = (Capability.READ_ACCOUNTS,)
    decorators = (recent_authentication_required,)
    form_class = TokenForm
    template_name = "accounts/token_new.html"

    @property
    def change_name(self) -> str:
        return "Create an API token"

    def get_initial(self) -> dict:
        return {"owner": self.request.user.username} | super().get_initial()

    def perform(self, form: TokenForm) -> HttpResponse:
        values = form.cleaned_data
        issued = create_token(
            author=self.author(form),
            owner=values["owner"],
            name=values["name"],
            scopes=values["scope"],
            days=values["days"],
        )
        context = {
            "token": issued.token,
            "secret": issued.secret,
            "first_call": first_call(issued.token, issued.secret),
        }
        return render_page(self.request, "accounts/token_issued.html", context)


class RevokeToken(ConfirmationPage):
    capabilities = (Capability.MANAGE_TOKENS,)
    back_title = "API tokens"

    def prepare(self) -> None:
        self.token = ApiToken.objects.select_related("owner").filter(pk=self.kwargs["pk"]).first()
        if self.token is None:
            raise Http404("there is no such token")

    @property
    def back(self) -> str:
        return reverse("tokens")

    def make(self, form: ConsoleForm) -> Outcome:
        return revoke_token(author=self.author(form), number=self.token.pk)

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        effect = (
            f"Requests with the token “{self.token.name}” of {self.token.owner} will be refused. A revoked token "
            "cannot be restored."
        )
        return Forecast(f"Revoke token {self.token.pk}", "Revoke token", [effect], is_destructive=True)
