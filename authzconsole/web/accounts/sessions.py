"""Who is signed in: sessions know their account only from inside, so they are read one by one."""

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from grants.models import User

MAX_SESSIONS_READ = 2_000


def sessions_counted(user: User) -> tuple[int, bool]:
    """Return the number of valid sessions of this account, and whether sessions beyond the newest MAX_SESSIONS_READ of
    all accounts were left unread. One query."""
    kept = list(Session.objects.filter(expire_date__gt=timezone.now()).order_by("-expire_date")[: MAX_SESSIONS_READ + 1])
    proof = user.get_session_auth_hash()
    total = sum(_is_of(session.get_decoded(), user, proof) for session in kept[:MAX_SESSIONS_READ])
    return total, len(kept) > MAX_SESSIONS_READ


def _is_of(session: dict, user: User, proof: str) -> bool:
    return session.get(SESSION_KEY) == str(user.pk) and constant_time_compare(session.get(HASH_SESSION_KEY, ""), proof)
