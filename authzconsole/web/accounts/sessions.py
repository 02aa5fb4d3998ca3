"""The sessions of an account: its own list, and the list that accounts with `read_accounts` see."""

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse

from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.sessions import active_sessions, end_sessions, end_sessions_of, session_id
from authzconsole.web.accounts.account_pages import account_or_404
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import ConsoleForm, FormPage, TextField, reason_field
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.vocabulary import quantity
from grants.models import User
from grants.roles.capabilities import Capability

MAX_SESSIONS = 100


class EndForm(ConsoleForm):
    """End one session, or all (of other accounts) or all others (of the own account) without `session`."""

    session = TextField()
    reason = reason_field()


class OwnSessions(FormPage):
    """List the sessions of the signed-in account, and end one of them, or all except this one."""

    form_class = EndForm
    template_name = "accounts/sessions/page.html"

    def prepare(self) -> None:
        self.account: User = self.request.impersonator or self.request.user

    def perform(self, form: EndForm) -> HttpResponse:
        key = self.request.session.session_key or ""
        ended = end_sessions(self.account, only_id=form.cleaned_data["session"], except_key=key)
        if ended:
            sessions = quantity(ended, "session", "sessions")
            record_event(EventKind.SIGN_OUT, request=self.request, detail=f"ended {sessions} of this account")
            messages.success(self.request, f"{sessions} ended.")
        else:
            messages.info(self.request, "There was no session to end.")
        return see_other(reverse("sessions"))

    def get_context_data(self, **context) -> dict:
        sessions = list(active_sessions(self.account)[: MAX_SESSIONS + 1])
        current_key = self.request.session.session_key
        return super().get_context_data(**context) | {
            "account": self.account,
            "rows": [(session, session_id(session.session_key)) for session in sessions[:MAX_SESSIONS]],
            "has_more": len(sessions) > MAX_SESSIONS,
            "max_sessions": MAX_SESSIONS,
            "is_own": True,
            "can_end": True,
            "has_others": any(session.session_key != current_key for session in sessions),
        }


class AccountSessions(OwnSessions):
    """List the sessions of an account, and end one of them or all."""

    capabilities = (Capability.READ_ACCOUNTS,)
    change_capabilities = (Capability.MANAGE_ACCOUNTS,)
    decorators = (recent_authentication_required,)

    @property
    def change_name(self) -> str:
        return f"End sessions of {self.account}"

    def prepare(self) -> None:
        self.account = account_or_404(self.kwargs["principal"])

    def perform(self, form: EndForm) -> HttpResponse:
        author = self.author(form)
        show_outcome(
            self.request,
            end_sessions_of(author=author, user=self.account, only_id=form.cleaned_data["session"]),
        )
        return see_other(principal_url("account-sessions", self.kwargs["principal"]))

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "back": principal_url("account", str(self.account)),
            "is_own": False,
            "can_end": self.request.user.can(Capability.MANAGE_ACCOUNTS),
        }
