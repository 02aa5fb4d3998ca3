"""What a change of an account would do, in numbers, before it is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from authzconsole.models import ApiToken, TokenScope
from authzconsole.web.accounts.sessions import MAX_SESSIONS_READ, sessions_counted
from authzconsole.web.shared.stranding_warning import StrandingWarning, stranding_warning
from grants.models import Role, User
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count

OPENS = {
    Role.ADMINISTRATOR: "It may change everything in this console.",
    Role.AUDITOR: "It sees everything in this console and changes nothing.",
    Role.ORDINARY: "It sees in this console what its grants show, and changes nothing.",
}


@dataclass(frozen=True, slots=True)
class AccountForecast:
    """title, button: of the page that asks. sent: what its form sends besides the reason. lines: what would happen, a sentence
    each. stranding: None where the change takes nobody away from any entity."""

    title: str
    button: str
    lines: list[str]
    sent: dict[str, str] = field(default_factory=dict)
    stranding: StrandingWarning | None = None
    is_danger: bool = False


def good_tokens() -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now())


def change_forecast(user: User, change: str, sent: Mapping[str, str]) -> AccountForecast:
    """change: role, email or activity. sent: what the form would send. Raises Http404 where there is no such role."""
    if change == "activity":
        return _of_activity(user, active=sent.get("active") == "yes")
    if change == "email":
        return _of_email(user, sent.get("email", "").replace("\0", "").strip())
    if sent.get("role") not in Role.values:
        raise Http404("there is no such role")
    return _of_role(user, Role(sent["role"]))


def _of_activity(user: User, *, active: bool) -> AccountForecast:
    held = f"{_held(user)} {'count again' if active else 'stop counting; they stay, and count again once it is active'}."
    tokens = _tokens(good_tokens().filter(owner=user), *(("is good", "are good") if active else (
        "is refused as long as it is inactive", "are refused as long as it is inactive")))
    sent = {"change": "activity", "active": "yes" if active else "no"}
    if active:
        may = "may sign in" if user.has_usable_password() else "may sign in as soon as a password is set"
        return AccountForecast(f"Activate {user}", "Activate account", [f"{user} {may}.", held, *tokens], sent)
    lines = [f"{user} cannot sign in any more and is denied everything.", held, *_sessions_end(user), *tokens,
             *_administrators_left(user)]
    return AccountForecast(f"Deactivate {user}", "Deactivate account", lines, sent,
                           stranding_warning(loss_if_removed(user), principal=str(user)), is_danger=True)


def _of_role(user: User, role: Role) -> AccountForecast:
    sent, lines = {"change": "role", "role": role.value}, []
    if user.role == role:
        lines = [f"{user} has the role {role.label} already: nothing changes."]
    else:
        lines = [f"Its role was {Role(user.role).label} and will be {role.label}. {OPENS[role]}",
                 "No role gives anything in a decision: what it holds stays as it is."]
        if user.role == Role.ADMINISTRATOR:
            changing = good_tokens().filter(owner=user, scopes__contains=TokenScope.ADMINISTER.value)
            lines += [*_administrators_left(user), *_tokens(changing, "changes nothing any more", "change nothing any more")]
    return AccountForecast(f"Set the role of {user} to {role.label}", f"Set role to {role.label}", lines, sent,
                           is_danger=user.role == Role.ADMINISTRATOR != role)


def _of_email(user: User, email: str) -> AccountForecast:
    line = f"Its email was {user.email or 'empty'} and will be {email or 'empty'}."
    return AccountForecast(f"Change the email of {user}", "Save email", [line], {"change": "email", "email": email})


def password_forecast(user: User) -> AccountForecast:
    has_one = user.has_usable_password()
    lines = ["The console makes a new password and shows it once. With it, the console asks for another before anything else."]
    if has_one:
        lines = ["The present password ends.", *lines, *_sessions_end(user)]
    verb = "Replace" if has_one else "Set"
    return AccountForecast(f"{verb} the password of {user}", f"{verb} password",
                           lines + _tokens(good_tokens().filter(owner=user), "stays good", "stay good"), is_danger=has_one)


def _held(user: User) -> str:
    grants, groups = capped_count(user.grants), capped_count(user.groups)
    return f"{_counted(grants, 'grant of its own', 'grants of its own')} and {_counted(groups, 'membership', 'memberships')}"


def _counted(total: int, one: str, many: str) -> str:
    return f"over {MAX_COUNTED:,} {many}" if total > MAX_COUNTED else f"{total:,} {one if total == 1 else many}"


def _sessions_end(user: User) -> list[str]:
    total, is_cut = sessions_counted(user)
    only = f" Only the newest {MAX_SESSIONS_READ:,} sessions of everybody were looked at." if is_cut else ""
    return [f"{_counted(total, 'session ends', 'sessions end')}.{only}"]


def _tokens(rows: QuerySet[ApiToken], one: str, many: str) -> list[str]:
    total = capped_count(rows)
    return [f"{_counted(total, f'API token {one}', f'API tokens {many}')}."] if total else []


def _administrators_left(user: User) -> list[str]:
    """Of the console, which has nothing to do with who holds ADMIN."""
    if not user.can_administer:
        return []
    left = User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exclude(pk=user.pk).count()
    if not left:
        return ["It is the only active administrator of this console, which keeps it from being changed: make another first."]
    return [f"{_counted(left, 'other active administrator', 'other active administrators')} of this console "
            f"{'is' if left == 1 else 'are'} left."]
