"""Count the sessions of an account.

The account is stored inside the encoded session data, so sessions are decoded one by one.
"""

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from grants.models import User

MAX_SESSIONS_READ = 2_000


def count_sessions(user: User) -> tuple[int, bool]:
    """Return the number of valid sessions of this account, and whether the count is incomplete. Runs one query.

    Only the newest MAX_SESSIONS_READ sessions of all accounts are read.
    """
    sessions = list(Session.objects.filter(expire_date__gt=timezone.now()).order_by("-expire_date")[: MAX_SESSIONS_READ + 1])
    auth_hash = user.get_session_auth_hash()
    total = sum(_belongs_to(session.get_decoded(), user, auth_hash) for session in sessions[:MAX_SESSIONS_READ])
    return total, len(sessions) > MAX_SESSIONS_READ


def _belongs_to(session: dict, user: User, auth_hash: str) -> bool:
    return session.get(SESSION_KEY) == str(user.pk) and constant_time_compare(session.get(HASH_SESSION_KEY, ""), auth_hash)
