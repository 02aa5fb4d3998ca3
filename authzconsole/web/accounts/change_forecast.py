"""Forecast the effects of a change to an account, in numbers, for the confirmation page."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from authzconsole.models import ApiToken, TokenScope
from authzconsole.web.accounts.sessions import MAX_SESSIONS_READ, count_sessions
from authzconsole.web.shared.roles import ROLE_LABELS
from authzconsole.web.shared.stranding_warning import StrandingWarning, stranding_warning
from grants.models import Role, User
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count

ROLE_DESCRIPTIONS = {
    Role.ADMINISTRATOR: "Administrators can change everything in this console.",
    Role.AUDITOR: "Auditors see everything in this console and cannot change anything.",
    Role.ORDINARY: "Users see what their grants make visible and cannot change anything.",
}


@dataclass(frozen=True, slots=True)
class AccountForecast:
    """The content of the confirmation page.

    title, button: texts of the page. lines: a sentence for each effect. hidden_fields: fields of the form besides the reason.
    stranding: None if the change does not remove an administrator of an entity.
    """

    title: str
    button: str
    lines: list[str]
    hidden_fields: dict[str, str] = field(default_factory=dict)
    stranding: StrandingWarning | None = None
    is_danger: bool = False


def active_tokens() -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now())


def change_forecast(user: User, change: str, form: Mapping[str, str]) -> AccountForecast:
    """Forecast a change of the role, email or activity to the form values. Raises Http404 if there is no such role."""
    if change == "activity":
        return _activity_forecast(user, active=form.get("active") == "yes")
    if change == "email":
        return _email_forecast(user, form.get("email", "").replace("\0", "").strip())
    if form.get("role") not in Role.values:
        raise Http404("there is no such role")
    return _role_forecast(user, Role(form["role"]))


def _activity_forecast(user: User, *, active: bool) -> AccountForecast:
    consequence = "take effect again" if active else "remain, and take effect again when reactivated"
    grants = f"Their {_grants_and_memberships(user)} {consequence}."
    tokens = _tokens(active_tokens().filter(owner=user), *(("works again", "work again") if active else (
        "is refused while the account is inactive", "are refused while the account is inactive")))
    hidden_fields = {"change": "activity", "active": "yes" if active else "no"}
    if active:
        sign_in = "can sign in" if user.has_usable_password() else "can sign in after a password is set"
        return AccountForecast(f"Activate {user}", "Activate account", [f"{user} {sign_in}.", grants, *tokens], hidden_fields)
    lines = [f"{user} can no longer sign in and is denied everything.", grants, *_sessions_end(user), *tokens,
             *_remaining_administrators(user)]
    return AccountForecast(f"Deactivate {user}", "Deactivate account", lines, hidden_fields,
                           stranding_warning(loss_if_removed(user), principal=str(user)), is_danger=True)


def _role_forecast(user: User, role: Role) -> AccountForecast:
    hidden_fields, lines = {"change": "role", "role": role.value}, []
    if user.role == role:
        lines = [f"{user} already has the role {ROLE_LABELS[role]}. Nothing changes."]
    else:
        lines = [f"The role changes from {ROLE_LABELS[user.role]} to {ROLE_LABELS[role]}. {ROLE_DESCRIPTIONS[role]}",
                 "The console role grants no access to data. Grants do not change."]
        if user.role == Role.ADMINISTRATOR:
            administering_tokens = active_tokens().filter(owner=user, scopes__contains=TokenScope.ADMINISTER.value)
            lines += [*_remaining_administrators(user),
                      *_tokens(administering_tokens, *["can no longer change anything"] * 2)]
    title, button = f"Set the role of {user} to {ROLE_LABELS[role]}", f"Set role to {ROLE_LABELS[role]}"
    return AccountForecast(title, button, lines, hidden_fields,
                           is_danger=user.role == Role.ADMINISTRATOR != role)


def _email_forecast(user: User, email: str) -> AccountForecast:
    line = f"The email changes from {user.email or 'empty'} to {email or 'empty'}."
    return AccountForecast(f"Change the email of {user}", "Save email", [line], {"change": "email", "email": email})


def password_forecast(user: User) -> AccountForecast:
    has_password = user.has_usable_password()
    lines = ["Generates a password, shown once. The user must change it at first sign-in."]
    if has_password:
        lines = ["The current password stops working.", *lines, *_sessions_end(user)]
    verb = "Replace" if has_password else "Set"
    tokens = _tokens(active_tokens().filter(owner=user), "keeps working", "keep working")
    return AccountForecast(f"{verb} the password of {user}", f"{verb} password",
                           lines + tokens, is_danger=has_password)


def _grants_and_memberships(user: User) -> str:
    grants, groups = capped_count(user.grants), capped_count(user.groups)
    return f"{_counted(grants, 'direct grant', 'direct grants')} and {_counted(groups, 'membership', 'memberships')}"


def _counted(total: int, singular: str, plural: str) -> str:
    return f"over {MAX_COUNTED:,} {plural}" if total > MAX_COUNTED else f"{total:,} {singular if total == 1 else plural}"


def _sessions_end(user: User) -> list[str]:
    total, is_cut = count_sessions(user)
    only = f" Only the newest {MAX_SESSIONS_READ:,} sessions of all accounts were checked." if is_cut else ""
    return [f"{_counted(total, 'session ends', 'sessions end')}.{only}"]


def _tokens(rows: QuerySet[ApiToken], singular: str, plural: str) -> list[str]:
    total = capped_count(rows)
    return [f"{_counted(total, f'API token {singular}', f'API tokens {plural}')}."] if total else []


def _remaining_administrators(user: User) -> list[str]:
    """Return a sentence about the other console administrators. Console roles are independent of ADMIN grants."""
    if not user.can_administer:
        return []
    left = User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exclude(pk=user.pk).count()
    if not left:
        return ["This is the only active console administrator. Make another account administrator first."]
    return [f"{_counted(left, 'other active console administrator remains', 'other active console administrators remain')}."]
