"""The sessions of an account: its own list, and the list that accounts with `read_accounts` see."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.sessions.services import active_sessions, end_own_sessions, end_sessions_of, session_id
from authzconsole.web.accounts.account_pages import account_or_404
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.rendering import render_page, see_other, show_outcome
from entities.vocabulary import quantity
from grants.errors import GrantError
from grants.models import User
from grants.roles.capabilities import Capability

MAX_SESSIONS = 100


@require_http_methods(["GET", "HEAD", "POST"])
def own_sessions(request: HttpRequest) -> HttpResponse:
    """List the sessions of the signed-in account, and end one of them, or all except this one."""
    account = request.impersonator or request.user
    if request.method != "POST":
        return _list_response(request, account, is_own=True, can_end=True)
    ended = end_own_sessions(
        account, current_key=request.session.session_key, only_id=request.POST.get("session", "")
    )
    if ended:
        sessions = quantity(ended, "session", "sessions")
        record_event(EventKind.SIGN_OUT, request=request, detail=f"ended {sessions} of this account")
        messages.success(request, f"{sessions} ended.")
    else:
        messages.info(request, "There was no session to end.")
    return see_other(reverse("sessions"))


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.READ_ACCOUNTS)
def account_sessions(request: HttpRequest, principal: str) -> HttpResponse:
    """List the sessions of an account, and end one of them or all."""
    user = account_or_404(principal)
    if request.method == "POST":
        return _end_sessions(request, user, principal)
    return _list_response(request, user, is_own=False, can_end=request.user.can(Capability.MANAGE_ACCOUNTS))


@capability_required(Capability.MANAGE_ACCOUNTS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def _end_sessions(request: HttpRequest, user: User, principal: str) -> HttpResponse:
    author = request_author(request, request.POST.get("reason", "").strip())
    try:
        outcome = end_sessions_of(author=author, user=user, only_id=request.POST.get("session", ""))
    except GrantError as error:
        return _list_response(request, user, is_own=False, can_end=True, fault=f"{error}.", status=400)
    show_outcome(request, outcome)
    return see_other(principal_url("account-sessions", principal))


def _list_response(
    request: HttpRequest, account: User, *, is_own: bool, can_end: bool, fault: str = "", status: int = 200
) -> HttpResponse:
    sessions = list(active_sessions(account)[: MAX_SESSIONS + 1])
    rows = [
        {
            "session": session,
            "id": session_id(session.session_key),
            "is_current": session.session_key == request.session.session_key,
        }
        for session in sessions[:MAX_SESSIONS]
    ]
    return render_page(
        request,
        "accounts/sessions/page.html",
        {
            "account": account,
            "principal": principal_link(account),
            "back": principal_url("account", str(account)),
            "rows": rows,
            "has_more": len(sessions) > MAX_SESSIONS,
            "max_sessions": MAX_SESSIONS,
            "is_own": is_own,
            "can_end": can_end,
            "has_others": any(not row["is_current"] for row in rows),
            "action": request.path,
            "fault": fault,
        },
        status=status,
    )
