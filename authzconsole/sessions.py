"""The sessions of accounts: the session engine, with an idle limit and an absolute limit, and how sessions end.

INVARIANT: loading a session takes one query. The time of the last use is written at most once a minute.

Requests that an open page repeats automatically do not count as use, so an abandoned page does not keep the
session alive.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from authzconsole.common.database import update_without_waiting
from authzconsole.common.login_throttle import client_address
from authzconsole.common.request_id import current_request
from authzconsole.models import AccountSession, ApiToken
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import User
from grants.outcomes import Outcome
from grants.principals.hooks import AccessCounts
from grants.roles.capabilities import Capability

SIGN_IN_KEY = "sign_in"
# in the session: the digest of the provider's name for the user, by which a single logout finds the session
PROVIDER_NAME_KEY = "provider_name"
USE_RESOLUTION = timedelta(minutes=1)
MAX_USER_AGENT_CHARACTERS = 200
MAX_EXPIRED_DELETED = 1_000
# the ids of the sections that htmx reloads at intervals (`hx-trigger="every ..."`)
POLLING_SECTIONS = (
    "run",
    "application",
    "attention",
    "drift",
    "evidence",
    "jobs",
    "permissions",
    "report-age",
    "request-news",
    "review",
)
# the end of the ids of the parts of forms that show an effect, which htmx reloads while a job computes it
EFFECT_PART = "-effect"


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
    trigger = request.headers.get("HX-Trigger", "") if request is not None and request.method == "GET" else ""
    is_polling = trigger in POLLING_SECTIONS or trigger.endswith(EFFECT_PART)
    return is_polling and request is not None and trigger == request.headers.get("HX-Target")


def _end(created_at: datetime, *, last_used_at: datetime) -> datetime:
    return min(
        last_used_at + timedelta(seconds=settings.SESSION_IDLE_SECONDS),
        created_at + timedelta(seconds=settings.SESSION_ABSOLUTE_SECONDS),
    )


def active_sessions(user: User) -> QuerySet[AccountSession]:
    """Return the sessions of the account that have not expired, the last used first."""
    return AccountSession.objects.filter(account=user, expire_date__gt=timezone.now()).order_by(
        "-last_used_at", "session_key"
    )


def session_id(session_key: str) -> str:
    """Return a public id of a session. The key itself is the secret of the cookie."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:32]


def end_sessions(user: User, *, only_id: str = "", except_key: str = "") -> int:
    """End one session of the account, or all, or all except one. Return how many were ended.

    Like a sign-out, this leaves no journal line.
    """
    rows = AccountSession.objects.filter(account=user)
    keys = [
        key
        for key in rows.values_list("pk", flat=True)
        if (session_id(key) == only_id if only_id else key != except_key)
    ]
    return rows.filter(pk__in=keys).delete()[0]


def provider_name_digest(provider_id: str, name: str) -> str:
    """Return the text that identifies the sessions of a user with this name at a sign-in provider."""
    return hashlib.sha256(f"{provider_id}\n{name}".encode()).hexdigest()


def end_provider_sessions(digest: str, is_named: Callable[[dict], bool]) -> dict[str, int]:
    """End the sessions with this `provider_name_digest` that the provider named. Return their numbers by
    account.

    is_named: takes the data of a session. Like a sign-out, this leaves no journal line.
    """
    rows = [
        row
        for row in AccountSession.objects.filter(provider_name=digest).select_related("account")
        if is_named(SessionStore().decode(row.session_data))
    ]
    AccountSession.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return dict(Counter(row.account.username for row in rows if row.account))


def end_sessions_of(*, author: Author, user: User, only_id: str = "") -> Outcome:
    """End one session of another account, or all."""
    with administrator_transaction(author, capability=Capability.MANAGE_ACCOUNTS) as head:
        ended = end_sessions(user, only_id=only_id)
        if not ended:
            return Outcome(False, "the session has ended already: nothing changed", head.revision)
        change = _sessions_ended_change(user.username, ended)
        revision = append_to_journal(head, [change], author=author)
    return Outcome(True, f"{change.detail} of {user} ended", revision)


def end_access(user_ids: Sequence[int], with_tokens: bool) -> list[JournalEntry]:
    """End the sessions of the accounts, and their tokens if requested. Return the changes for the journal.

    Called in the transaction of the change (see grants.principals.hooks).
    """
    changes = []
    if with_tokens:
        tokens = (
            ApiToken.objects.filter(owner__in=user_ids, revoked_at=None)
            .select_related("owner")
            .order_by("pk")
        )
        changes = [
            JournalEntry("token-revoke", principal=str(token.owner), detail=str(token)) for token in tokens
        ]
        ApiToken.objects.filter(owner__in=user_ids, revoked_at=None).update(revoked_at=timezone.now())
    ended: dict[str, int] = {}
    rows = AccountSession.objects.filter(account__in=user_ids)
    for name in rows.filter(expire_date__gt=timezone.now()).values_list("account__username", flat=True):
        ended[name] = ended.get(name, 0) + 1
    rows.delete()
    return [*changes, *(_sessions_ended_change(name, count) for name, count in sorted(ended.items()))]


def count_access(names: Collection[str]) -> AccessCounts:
    """Return how many valid sessions and tokens `end_access` would end. names: of the users.

    Runs two queries.
    """
    sessions = AccountSession.objects.filter(
        account__username__among=list(names), expire_date__gt=timezone.now()
    )
    return AccessCounts(
        sessions.count(), ApiToken.objects.active().filter(owner__username__among=list(names)).count()
    )


def _sessions_ended_change(name: str, count: int) -> JournalEntry:
    return JournalEntry(
        "sessions-end", principal=f"user:{name}", detail=f"{count} session{'' if count == 1 else 's'}"
    )
