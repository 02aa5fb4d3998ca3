"""The section of the account on the page of a user, and the changes to an account: what each of them does, in
numbers, and the form that confirms it. The forms of tokens have the same base, `ConfirmationPage`.
"""

from collections.abc import Mapping
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.forms import HiddenInput
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from authzconsole.common.invitations import can_be_invited
from authzconsole.common.sign_in_methods import factor_title, reset_factors, unlink_identity
from authzconsole.models import ApiToken, TokenScope
from authzconsole.sessions import active_sessions
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import ConsoleForm, EmailField, OptionalChoiceField, TextField, reason_field
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from entities.frozen import frozen
from grants.administrators import Strandings
from grants.change_set import Activate, Deactivate
from grants.changes import ChangeSet, Outcome
from grants.models import Role, User
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.services import renew_user_password, set_full_name, set_user_email, set_user_role
from grants.roles.capabilities import Capability, capabilities_of, role_includes


@frozen
class Forecast:
    """What a form says before its change is made.

    title, button: texts of the page. effects: one sentence for each effect.
    """

    title: str
    button: str
    effects: list[str]
    is_destructive: bool = False


class ReasonForm(ConsoleForm):
    """A change without further values. The ids of its fields differ from those of the page below the dialog."""

    id_pattern = "confirm-%s"

    reason = reason_field()


class ConfirmationPage(EffectPage):
    """Show the forecast of a change, as a page or in the dialog, and make the change on POST.

    back, back_title: the page before, in the path and after the change.
    """

    capabilities = (Capability.MANAGE_ACCOUNTS,)
    visible_to = (Capability.READ_ACCOUNTS,)
    decorators = (recent_authentication_required,)
    form_class = ReasonForm
    template_name = "accounts/change.html"
    has_forecast = True

    @property
    def change_name(self) -> str:
        return self.forecast(self.form_class.sent(self.request).cleaned_data).title

    @property
    def back(self) -> str:
        raise NotImplementedError

    @property
    def back_title(self) -> str:
        raise NotImplementedError

    @property
    def shows_effect(self) -> bool:
        return False

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        """values: of the form, as sent in the body or in the URL."""
        raise NotImplementedError

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        return see_other(self.back)

    def get_template_names(self) -> list[str]:
        is_dialog = requested_section(self.request) == "dialog"
        return ["accounts/_change_form.html"] if is_dialog else super().get_template_names()

    def get_context_data(self, **context) -> dict:
        forecast = self.forecast(self.form_class.sent(self.request).cleaned_data)
        return super().get_context_data(**context) | {
            "forecast": forecast,
            "button": forecast.button,
            "is_danger": forecast.is_destructive,
            "back": self.back,
            "back_title": self.back_title,
        }


MAX_TOKENS = 20


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
    request: HttpRequest, user: User, *, status: int = 200, **answer: Any
) -> HttpResponse:
    """Render the answer to a form. answer: see `_context`."""
    return render_page(request, "accounts/account.html", _context(request, user, **answer), status=status)


def _context(
    request: HttpRequest,
    user: User,
    *,
    form: ConsoleForm | None = None,
    password: str = "",
) -> dict:
    """Return the context of the section. form: the refused one. password: shown once."""
    entered = form.data if form is not None else {}
    can_manage = role_includes(request.user.role, user.role)
    tokens = list(ApiToken.objects.filter(owner=user).order_by("-created_at")[: MAX_TOKENS + 1])
    return {
        "account": user,
        "form": form,
        "email": entered.get("email", user.email),
        "full_name": entered.get("full_name", user.get_full_name()),
        "email_reason": entered.get("reason", ""),
        "password": password,
        "first_password_hours": settings.FIRST_PASSWORD_HOURS,
        "roles": [choice for choice in Role.choices if role_includes(request.user.role, choice[0])],
        "can_invite": can_be_invited(user),
        "has_providers": bool(settings.SIGN_IN_PROVIDERS),
        "can_change": can_manage and request.user.can(Capability.MANAGE_ACCOUNTS),
        "max_tokens": MAX_TOKENS,
        "tokens": tokens[:MAX_TOKENS],
        "has_more_tokens": len(tokens) > MAX_TOKENS,
        "can_create_token": can_manage
        and request.user.can(Capability.MANAGE_TOKENS)
        and user.is_active
        and (user.is_service or user.pk == request.user.pk),
        "identities": [
            (identity, provider_name(identity.provider))
            for identity in SocialAccount.objects.filter(user=user).order_by("pk")
        ],
    }


def provider_name(provider: str) -> str:
    """Return the name of a sign-in provider; its identifier if it is no longer configured."""
    options = settings.SIGN_IN_PROVIDERS.get(provider)
    return options.name if options else provider


ROLE_DESCRIPTIONS = {
    Role.ADMINISTRATOR: "Administrators can change everything in this console.",
    Role.SECURITY_ADMINISTRATOR: "Security administrators manage accounts, tokens and sign-in. They see and change no grants.",
    Role.APPROVER: "Approvers see all grants, and approve requests and reviews. They change nothing else.",
    Role.OPERATOR: "Operators start analyses and see reports and the status. They see and change no grants and no accounts.",
    Role.AUDITOR: "Auditors see everything in this console and cannot change anything.",
    Role.ORDINARY: "Users see what their grants make visible and cannot change anything.",
}


class AccountChange(ConfirmationPage):
    """Change an account. Refuse it if the account has a right that the signed-in account lacks."""

    def prepare(self) -> None:
        self.user = account_or_404(self.kwargs["principal"])
        if not role_includes(self.request.user.role, self.user.role):
            raise PermissionDenied(
                f"This account has the role {self.user.get_role_display()}, which can do more than yours. Ask an "
                "administrator."
            )

    @property
    def back(self) -> str:
        return principal_url("account", str(self.user))

    @property
    def back_title(self) -> str:
        return self.user.username

    def form_invalid(self, form: ConsoleForm) -> HttpResponse:
        return account_page_response(self.request, self.user, form=form, status=400)

    def refusal_response(self, form: ConsoleForm, error: Exception) -> HttpResponse:
        return self.form_invalid(form)


class ChangeForm(ReasonForm):
    """change: a key of CHANGES, which reads one of the other fields."""

    change = TextField(widget=HiddenInput)
    role = TextField(widget=HiddenInput)
    email = EmailField(widget=HiddenInput)
    full_name = TextField(widget=HiddenInput)
    active = OptionalChoiceField(
        choices=[("yes", "active"), ("no", "inactive")], default="no", widget=HiddenInput
    )


class SetRole(AccountChange):
    form_class = ChangeForm

    def make(self, form: ConsoleForm) -> Outcome:
        return set_user_role(
            author=self.author(form), name=self.user.username, role=form.cleaned_data["role"]
        )

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        """Raise Http404 for an unknown role."""
        if values["role"] not in Role.values:
            raise Http404("there is no such role")
        user, role = self.user, Role(values["role"])
        title, button = f"Set the role of {user} to {role.label}", f"Set role to {role.label}"
        loses_administration = user.role == Role.ADMINISTRATOR != role
        return Forecast(title, button, _role_effects(user, role), is_destructive=loses_administration)


class SetEmail(AccountChange):
    form_class = ChangeForm

    def make(self, form: ConsoleForm) -> Outcome:
        return set_user_email(
            author=self.author(form), name=self.user.username, email=form.cleaned_data["email"]
        )

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        effect = f"The email changes from {self.user.email or 'empty'} to {values.get('email') or 'empty'}."
        return Forecast(f"Change the email of {self.user}", "Save email", [effect])


class SetFullName(AccountChange):
    form_class = ChangeForm

    def make(self, form: ConsoleForm) -> Outcome:
        return set_full_name(
            author=self.author(form), name=self.user.username, full_name=form.cleaned_data["full_name"]
        )

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        effect = f"The full name changes from {self.user.get_full_name() or 'empty'} to {values['full_name'] or 'empty'}."
        return Forecast(f"Change the full name of {self.user}", "Save full name", [effect])


class SetActivity(AccountChange):
    """Activate or deactivate an account, which changes permissions."""

    form_class = ChangeForm

    @property
    def shows_effect(self) -> bool:
        """Accounts that see no grants do not see the effect."""
        return self.request.user.can_see_all

    def prepare(self) -> None:
        super().prepare()
        self.stranding_url = principal_url("person-off-board", str(self.user))

    def stranding(self, form: ConsoleForm) -> Strandings | None:
        return None if form.cleaned_data["active"] == "yes" else loss_if_removed(self.user)

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        return ChangeSet.of(
            (Activate if form.cleaned_data["active"] == "yes" else Deactivate)(self.user.username)
        )

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        user, shows_grants, active = self.user, self.request.user.can_see_all, values["active"] == "yes"
        grants_effect = "take effect again" if active else "remain, and take effect again when reactivated"
        grants = f"Their {_grants_and_memberships(user) if shows_grants else 'grants and memberships'} {grants_effect}."
        tokens = _tokens_effect(ApiToken.objects.active().filter(owner=user), "is revoked", "are revoked")
        if active:
            sign_in = "can sign in" if user.has_usable_password() else "can sign in after a password is set"
            return Forecast(f"Activate {user}", "Activate account", [f"{user} {sign_in}.", grants, *tokens])
        effects = [
            f"{user} can no longer sign in and is denied everything.",
            grants,
            *_sessions_effect(user),
            *tokens,
            *_remaining_administrators(user),
        ]
        return Forecast(f"Deactivate {user}", "Deactivate account", effects, is_destructive=True)


class UnknownChange(AccountChange):
    """Refuse a change that does not exist, after the right to change the account is checked."""

    def prepare(self) -> None:
        super().prepare()
        raise Http404("there is no such change")


# by the field `change`
CHANGES = {"role": SetRole, "email": SetEmail, "full-name": SetFullName, "activity": SetActivity}


@capability_required(Capability.MANAGE_ACCOUNTS, visible_to=[Capability.READ_ACCOUNTS])
def change_account(request: HttpRequest, principal: str) -> HttpResponse:
    """Change the role, the names, the email or the activity of an account."""
    change = CHANGES.get(ChangeForm.sent(request).cleaned_data["change"], UnknownChange)
    return change.as_view()(request, principal=principal)


@method_decorator(sensitive_variables("password"), name="perform")
class RenewPassword(AccountChange):
    """Generate a password. It is shown in this response and never again."""

    def perform(self, form: ConsoleForm) -> HttpResponse:
        password = renew_user_password(author=self.author(form), name=self.user.username)
        return account_page_response(self.request, account_or_404(str(self.user)), password=password)

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        user, has_password = self.user, self.user.has_usable_password()
        effects = [
            f"Generates a password, shown once. The user must sign in and change it within {settings.FIRST_PASSWORD_HOURS} "
            f"hours."
        ]
        if has_password:
            effects = ["The current password stops working.", *effects, *_sessions_effect(user)]
        effects += _tokens_effect(
            ApiToken.objects.active().filter(owner=user), "keeps working", "keep working"
        )
        verb = "Replace" if has_password else "Set"
        return Forecast(
            f"{verb} the password of {user}", f"{verb} password", effects, is_destructive=has_password
        )


class SignInMethodChange(AccountChange):
    """Remove sign-in methods of an account. The service checks the roles."""

    def prepare(self) -> None:
        self.user = account_or_404(self.kwargs["principal"])

    def refusal_response(self, form: ConsoleForm, error: Exception) -> HttpResponse:
        messages.error(self.request, f"{error}.")
        return see_other(self.back)


class ResetFactors(SignInMethodChange):
    def make(self, form: ConsoleForm) -> Outcome:
        return reset_factors(author=self.author(form), name=self.user.username)

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        titles = ", ".join(sorted(map(factor_title, Authenticator.objects.filter(user=self.user))))
        effects = [
            f"Removes: {titles}.",
            "The next sign-in needs no second factor. If the console role requires a second factor, the user must "
            "then set up a new one.",
        ]
        title = f"Reset second factor of {self.user.username}"
        return Forecast(
            title,
            "Reset second factor",
            effects if titles else ["The account has no second factor."],
            is_destructive=True,
        )


class UnlinkIdentity(SignInMethodChange):
    """Unlink an identity of a sign-in provider from its account."""

    def prepare(self) -> None:
        self.link = SocialAccount.objects.select_related("user").filter(pk=self.kwargs["pk"]).first()
        if self.link is None:
            raise Http404("there is no such identity")
        self.user = self.link.user

    def make(self, form: ConsoleForm) -> Outcome:
        return unlink_identity(author=self.author(form), user=self.user, pk=self.link.pk)

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        name, provider = self.user.username, provider_name(self.link.provider)
        effects = [
            format_html(
                "The identity <code>{}</code> of {} can no longer sign in to this account.",
                self.link.uid,
                provider,
            ),
            "All sessions of the account end.",
            f"If {provider} may link existing accounts, the next sign-in with the name {name} links one again.",
        ]
        return Forecast(f"Unlink identity of {name}", "Unlink identity", effects, is_destructive=True)


def _role_effects(user: User, role: Role) -> list[str]:
    if user.role == role:
        return [f"{user} already has the role {role.label}. Nothing changes."]
    effects = [
        f"The role changes from {user.get_role_display()} to {role.label}. {ROLE_DESCRIPTIONS[role]}",
        "The console role grants no access to data. Grants do not change.",
    ]
    tokens = ApiToken.objects.active().filter(owner=user)
    if user.role == Role.ADMINISTRATOR:
        effect = "can no longer change anything"
        administering_tokens = tokens.filter(scopes__contains=TokenScope.ADMINISTER.value)
        effects += [*_remaining_administrators(user), *_tokens_effect(administering_tokens, effect, effect)]
    if user.can_see_all and Capability.READ_ALL not in capabilities_of(role) and not user.is_service:
        effect = f"can only ask about {user}"
        effects += _tokens_effect(tokens.filter(scopes__contains=TokenScope.DECIDE.value), effect, effect)
    return effects


def _grants_and_memberships(user: User) -> str:
    grants, groups = capped_count(user.grants), capped_count(user.groups)
    return f"{_count_text(grants, 'direct grant', 'direct grants')} and {_count_text(groups, 'membership', 'memberships')}"


def _count_text(total: int, singular: str, plural: str) -> str:
    return (
        f"over {MAX_COUNTED:,} {plural}"
        if total > MAX_COUNTED
        else f"{total:,} {singular if total == 1 else plural}"
    )


def _sessions_effect(user: User) -> list[str]:
    return [f"{_count_text(capped_count(active_sessions(user)), 'session ends', 'sessions end')}."]


def _tokens_effect(rows: QuerySet[ApiToken], singular: str, plural: str) -> list[str]:
    total = capped_count(rows)
    return [f"{_count_text(total, f'API token {singular}', f'API tokens {plural}')}."] if total else []


def _remaining_administrators(user: User) -> list[str]:
    """Return a sentence about the other console administrators.

    Console roles are independent of ADMIN grants.
    """
    if not user.can_administer:
        return []
    remaining = User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exclude(pk=user.pk).count()
    if not remaining:
        return ["This is the only active console administrator. Make another account administrator first."]
    administrators = _count_text(
        remaining, "other active console administrator remains", "other active console administrators remain"
    )
    return [f"{administrators}."]
