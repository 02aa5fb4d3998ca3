"""Forecast the effects of a change to an account, in numbers, for the confirmation page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404

from authzconsole.models import ApiToken, TokenScope
from authzconsole.sessions.services import active_sessions
from authzconsole.web.shared.roles import ROLE_LABELS
from authzconsole.web.shared.stranding_warning import StrandingWarning, stranding_warning
from grants.models import Role, User
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.roles.capabilities import Capability, capabilities_of

ROLE_DESCRIPTIONS = {
    Role.ADMINISTRATOR: "Administrators can change everything in this console.",
    Role.SECURITY_ADMINISTRATOR: "Security administrators manage accounts, tokens and sign-in. They see and change no grants.",
    Role.APPROVER: "Approvers see all grants, and approve requests and reviews. They change nothing else.",
    Role.OPERATOR: "Operators start analyses and see reports and the status. They see and change no grants and no accounts.",
    Role.AUDITOR: "Auditors see everything in this console and cannot change anything.",
    Role.ORDINARY: "Users see what their grants make visible and cannot change anything.",
}


@dataclass(frozen=True, slots=True)
class AccountForecast:
    """The content of the confirmation page.

    title, button: texts of the page. effects: one sentence for each effect. hidden_fields: the form fields
    except the reason.
    stranding: None if the change does not remove an administrator of an entity.
    """

    title: str
    button: str
    effects: list[str]
    hidden_fields: dict[str, str] = field(default_factory=dict)
    stranding: StrandingWarning | None = None
    is_destructive: bool = False


def change_forecast(user: User, values: Mapping[str, Any], *, shows_grants: bool = True) -> AccountForecast:
    """Return the forecast of changing the role, names, email or activity to the values of the form. Raise Http404 for an
    unknown role.

    shows_grants: whether the reader may see the grants of the user.
    """
    match values["change"]:
        case "activity":
            return _activity_forecast(user, active=values["active"], shows_grants=shows_grants)
        case "email":
            return _email_forecast(user, values["email"])
        case "full-name":
            return _full_name_forecast(user, values["full_name"])
    if values["role"] not in Role.values:
        raise Http404("there is no such role")
    return _role_forecast(user, Role(values["role"]))


def _activity_forecast(user: User, *, active: bool, shows_grants: bool) -> AccountForecast:
    grants_effect = "take effect again" if active else "remain, and take effect again when reactivated"
    grants = f"Their {_grants_and_memberships(user) if shows_grants else 'grants and memberships'} {grants_effect}."
    tokens = _tokens_effect(ApiToken.objects.active().filter(owner=user), "is revoked", "are revoked")
    hidden_fields = {"change": "activity", "active": "yes" if active else "no"}
    if active:
        sign_in = "can sign in" if user.has_usable_password() else "can sign in after a password is set"
        return AccountForecast(
            f"Activate {user}", "Activate account", [f"{user} {sign_in}.", grants, *tokens], hidden_fields
        )
    effects = [
        f"{user} can no longer sign in and is denied everything.",
        grants,
        *_sessions_effect(user),
        *tokens,
        *_remaining_administrators(user),
    ]
    return AccountForecast(
        f"Deactivate {user}",
        "Deactivate account",
        effects,
        hidden_fields,
        stranding_warning(loss_if_removed(user), principal=str(user)) if shows_grants else None,
        is_destructive=True,
    )


def _role_forecast(user: User, role: Role) -> AccountForecast:
    hidden_fields = {"change": "role", "role": role.value}
    if user.role == role:
        effects = [f"{user} already has the role {ROLE_LABELS[role]}. Nothing changes."]
    else:
        effects = [
            f"The role changes from {ROLE_LABELS[user.role]} to {ROLE_LABELS[role]}. {ROLE_DESCRIPTIONS[role]}",
            "The console role grants no access to data. Grants do not change.",
        ]
        if user.role == Role.ADMINISTRATOR:
            administering_tokens = ApiToken.objects.active().filter(
                owner=user, scopes__contains=TokenScope.ADMINISTER.value
            )
            token_effect = "can no longer change anything"
            effects += [
                *_remaining_administrators(user),
                *_tokens_effect(administering_tokens, token_effect, token_effect),
            ]
        if user.can_see_all and Capability.READ_ALL not in capabilities_of(role) and not user.is_service:
            deciding_tokens = ApiToken.objects.active().filter(
                owner=user, scopes__contains=TokenScope.DECIDE.value
            )
            effects += _tokens_effect(
                deciding_tokens, f"can only ask about {user}", f"can only ask about {user}"
            )
    title, button = f"Set the role of {user} to {ROLE_LABELS[role]}", f"Set role to {ROLE_LABELS[role]}"
    loses_administration = user.role == Role.ADMINISTRATOR != role
    return AccountForecast(title, button, effects, hidden_fields, is_destructive=loses_administration)


def _email_forecast(user: User, email: str) -> AccountForecast:
    effect = f"The email changes from {user.email or 'empty'} to {email or 'empty'}."
    return AccountForecast(
        f"Change the email of {user}", "Save email", [effect], {"change": "email", "email": email}
    )


def _full_name_forecast(user: User, full_name: str) -> AccountForecast:
    effect = f"The full name changes from {user.get_full_name() or 'empty'} to {full_name or 'empty'}."
    return AccountForecast(
        f"Change the full name of {user}",
        "Save full name",
        [effect],
        {"change": "full-name", "full_name": full_name},
    )


def password_forecast(user: User) -> AccountForecast:
    has_password = user.has_usable_password()
    effects = [
        f"Generates a password, shown once. The user must sign in and change it within {settings.FIRST_PASSWORD_HOURS} "
        f"hours."
    ]
    if has_password:
        effects = ["The current password stops working.", *effects, *_sessions_effect(user)]
    effects += _tokens_effect(ApiToken.objects.active().filter(owner=user), "keeps working", "keep working")
    verb = "Replace" if has_password else "Set"
    return AccountForecast(
        f"{verb} the password of {user}", f"{verb} password", effects, is_destructive=has_password
    )


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
