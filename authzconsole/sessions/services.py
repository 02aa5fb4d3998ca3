"""List and end the sessions of an account. End its tokens and sessions when it is deactivated."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from django.db.models import QuerySet
from django.utils import timezone

from authzconsole.models import AccountSession, ApiToken
from authzconsole.sessions.store import SessionStore
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import User
from grants.outcomes import Outcome
from grants.principals.hooks import AccessCounts
from grants.roles.capabilities import Capability


def active_sessions(user: User) -> QuerySet[AccountSession]:
    """Return the sessions of the account that have not expired, the last used first."""
    return AccountSession.objects.filter(account=user, expire_date__gt=timezone.now()).order_by(
        "-last_used_at", "session_key"
    )


def session_id(session_key: str) -> str:
    """Return a public id of a session. The key itself is the secret of the cookie."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:32]


def end_own_sessions(user: User, *, current_key: str, only_id: str = "") -> int:
    """End one session of the account, or all except the current one. Return how many were ended.

    Like a sign-out, this leaves no journal line.
    """
    rows = AccountSession.objects.filter(account=user)
    keys = [
        key
        for key in rows.values_list("pk", flat=True)
        if (session_id(key) == only_id if only_id else key != current_key)
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
        rows = AccountSession.objects.filter(account=user)
        keys = [key for key in rows.values_list("pk", flat=True) if not only_id or session_id(key) == only_id]
        ended = rows.filter(pk__in=keys).delete()[0]
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
