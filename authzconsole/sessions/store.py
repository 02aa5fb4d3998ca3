"""The session engine: sessions in the database, with an idle limit and an absolute limit.

INVARIANT: loading a session takes one query. The time of the last use is written at most once a minute.

Requests that an open page repeats automatically do not count as use, so an abandoned page does not keep the
session alive.
"""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.http import HttpRequest
from django.utils import timezone

from authzconsole.common.database.busy import update_without_waiting
from authzconsole.common.login_throttle import client_address
from authzconsole.common.request_id import current_request
from authzconsole.models import AccountSession

SIGN_IN_KEY = "sign_in"
# in the session: the digest of the provider's name for the user, by which a single logout finds the session
PROVIDER_NAME_KEY = "provider_name"
USE_RESOLUTION = timedelta(minutes=1)
MAX_USER_AGENT_CHARACTERS = 200
MAX_EXPIRED_DELETED = 1_000
# the ids of the sections that htmx reloads at intervals (`hx-trigger="every ..."`)
POLLING_SECTIONS = ("run", "attention", "effect", "evidence", "permissions", "review")


def record_sign_in(sender, request: HttpRequest | None, user, **kwargs) -> None:
    """Receive `user_logged_in`: store when and where the session started.

    Also delete some expired sessions.
    """
    if request is None:
        return
    agent = "".join(
        character for character in request.headers.get("User-Agent", "") if character.isprintable()
    )
    request.session[SIGN_IN_KEY] = {
        "at": timezone.now().timestamp(),
        "address": client_address(request),
        "agent": agent[:MAX_USER_AGENT_CHARACTERS],
    }
    delete_expired_sessions(MAX_EXPIRED_DELETED)


def delete_expired_sessions(max_rows: int) -> int:
    """Delete the sessions that expired first and return their number."""
    expired = AccountSession.objects.filter(expire_date__lte=timezone.now()).order_by("expire_date")
    keys = list(expired.values_list("pk", flat=True)[:max_rows])
    return AccountSession.objects.filter(pk__in=keys).delete()[0]


class SessionStore(db.SessionStore):
    """Django's sessions in the database, in the table of AccountSession."""

    @classmethod
    def get_model_class(cls) -> type[AccountSession]:
        return AccountSession

    def create_model_instance(self, data: dict) -> AccountSession:
        now, sign_in = timezone.now(), data.get(SIGN_IN_KEY, {})
        signed_in_at = datetime.fromtimestamp(sign_in["at"], UTC) if sign_in else now
        return AccountSession(
            session_key=self._get_or_create_session_key(),
            session_data=self.encode(data),
            last_used_at=now,
            expire_date=_end(signed_in_at, last_used_at=now),
            account_id=data.get(SESSION_KEY),
            created_at=signed_in_at,
            address=sign_in.get("address", ""),
            user_agent=sign_in.get("agent", ""),
            provider_name=data.get(PROVIDER_NAME_KEY, ""),
        )

    def _get_session_from_db(self) -> AccountSession | None:
        row = super()._get_session_from_db()
        now = timezone.now()
        # the limits may be lower than when `expire_date` was stored
        if row is None or _end(row.created_at, last_used_at=row.last_used_at) <= now:
            self._session_key = None
            return None
        if now - row.last_used_at >= USE_RESOLUTION and not _is_polling(current_request()):
            update_without_waiting(
                AccountSession.objects.filter(pk=row.pk),
                last_used_at=now,
                expire_date=_end(row.created_at, last_used_at=now),
            )
        return row


def _is_polling(request: HttpRequest | None) -> bool:
    """Return whether a section reloads itself at intervals.

    Links and forms inside the section are other triggers.
    """
    trigger = request.headers.get("HX-Trigger") if request is not None and request.method == "GET" else None
    return trigger in POLLING_SECTIONS and trigger == request.headers.get("HX-Target")


def _end(created_at: datetime, *, last_used_at: datetime) -> datetime:
    return min(
        last_used_at + timedelta(seconds=settings.SESSION_IDLE_SECONDS),
        created_at + timedelta(seconds=settings.SESSION_ABSOLUTE_SECONDS),
    )
