"""Making, revoking and recognising API tokens. A token is shown once, when it is made."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import OperationalError, connection
from django.utils import timezone

from authzconsole.models import ApiToken, TokenScope
from entities.vocabulary import clip
from grants.active_generation import ACTIVE_GENERATION_SQL, generation_or_default
from grants.bulk_rows import database_time
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import Outcome
from grants.journal import Author, Change, append_to_journal
from grants.models import User
from grants.principal_names import control_character_fault, storage_fault

# found by whoever searches code or logs for secrets that leaked
BEGINNING = "azc_"
MAX_NAME_CHARACTERS = 100
LONGEST_LIFE_DAYS = 3_650
USE_NOTED_EVERY = timedelta(minutes=1)


class TokenError(ValueError):
    """A token that cannot be made or revoked so; the message says why."""


class TokenRefused(ValueError):
    """A token that is not, or no longer, good for anything; the message may be told to whoever showed it."""


class TokenUnknown(TokenRefused):
    """What was shown is no token, and never was one."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """secret: what its owner shows from now on; it is kept nowhere."""

    token: ApiToken
    secret: str


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token that is good. number: its primary key. scopes: values of TokenScope. generation: the active one, by name."""

    number: int
    owner_id: int
    scopes: frozenset[str]
    generation: str


def create_token(*, author: Author, owner: str, name: str, scopes: Iterable[str], days: int) -> IssuedToken:
    """A token of the account `owner` that expires in `days`. Raises TokenError, NotAdministrator."""
    scopes = _checked(name, scopes, days)
    with administrator_transaction(author) as head:
        user = None if storage_fault(owner) else User.objects.filter(username=owner).first()
        _check_owner(owner, user, scopes)
        secret, now = BEGINNING + secrets.token_urlsafe(32), timezone.now()
        token = ApiToken.objects.create(name=name, owner=user, digest=_digest(secret), scopes=" ".join(scopes), created_at=now,
                                        expires_at=now + timedelta(days=days))
        detail = f"{token} for {', '.join(scopes)}, until {token.expires_at:%Y-%m-%d}"
        append_to_journal(head, [Change("token-add", principal=str(user), detail=detail)], author=author)
    return IssuedToken(token, secret)


def revoke_token(*, author: Author, number: int) -> Outcome:
    """From now on the token is good for nothing; its row stays. Raises TokenError, NotAdministrator."""
    with administrator_transaction(author) as head:
        token = ApiToken.objects.select_related("owner").filter(pk=number).first()
        if token is None:
            raise TokenError(f"there is no token with the number {number}")
        if token.revoked_at is not None:
            return Outcome(False, f"the token {token} is revoked already: nothing changed", head.revision)
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
        change = Change("token-revoke", principal=str(token.owner), detail=str(token))
        revision = append_to_journal(head, [change], author=author)
    return Outcome(True, f"the token {token} of {token.owner} is revoked", revision)


# written out: it goes before every decision, and the ORM takes longer to write it than the database to answer it; with the
# generation, which would be a question of its own, and the two take most of the time that a decision takes
_SHOWN = f"""
SELECT t.id, t.owner_id, t.scopes, t.revoked_at IS NULL, t.expires_at > %s, u.is_active,
  t.last_used_at IS NULL OR t.last_used_at <= %s, ({ACTIVE_GENERATION_SQL})
FROM {ApiToken._meta.db_table} t JOIN {User._meta.db_table} u ON u.id = t.owner_id WHERE t.digest = %s"""


def token_shown(secret: str) -> ShownToken:
    """The token of that secret. Raises TokenRefused. One query, and a write at most once a minute."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(_SHOWN, [database_time(now), database_time(now - USE_NOTED_EVERY), _digest(secret)])
        row = cursor.fetchone()
    if row is None:
        raise TokenUnknown("the token is not known here")
    number, owner_id, scopes, is_kept, is_fresh, owner_is_active, is_note_due, chosen = row
    if not is_kept:
        raise TokenRefused("the token was revoked")
    if not is_fresh:
        raise TokenRefused("the token has expired")
    if not owner_is_active:
        raise TokenRefused("the account of the token is inactive")
    if is_note_due:
        _note_use(number, now)
    return ShownToken(number, owner_id, frozenset(scopes.split()), generation_or_default(chosen).name)


def _note_use(number: int, now: datetime) -> None:
    """Without waiting: an import may hold SQLite's only lock for minutes, and no answer should wait for a note."""
    rows = ApiToken.objects.filter(pk=number)
    if connection.vendor != "sqlite":
        rows.update(last_used_at=now)
        return
    with connection.cursor() as cursor:
        patience_milliseconds = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            rows.update(last_used_at=now)
        except OperationalError:
            # the next use notes it
            pass
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {patience_milliseconds}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _checked(name: str, scopes: Iterable[str], days: int) -> list[str]:
    """The scopes in their order."""
    if not name.strip() or len(name) > MAX_NAME_CHARACTERS:
        raise TokenError(f"a token has a name of 1 to {MAX_NAME_CHARACTERS} characters")
    if fault := control_character_fault("the name", name):
        raise TokenError(fault)
    scopes = set(scopes)
    if not scopes or scopes - set(TokenScope.values):
        raise TokenError(f"a token is for one or more of {', '.join(TokenScope.values)}")
    if not 1 <= days <= LONGEST_LIFE_DAYS:
        raise TokenError(f"a token lives for 1 to {LONGEST_LIFE_DAYS:,} days")
    return [scope for scope in TokenScope.values if scope in scopes]


def _check_owner(name: str, user: User | None, scopes: list[str]) -> None:
    if user is None or not user.is_active:
        raise TokenError(f"`{clip(name)}` is no active account of this console: the owner of a token must be one")
    if TokenScope.ADMINISTER in scopes and not user.can_administer:
        raise TokenError(f"{user} does not administer this console, so a token of that account cannot either")
