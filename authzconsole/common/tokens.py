"""Create, revoke and verify API tokens.

The secret of a token is shown once, when it is created, and is not stored.
"""

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from authzconsole.common.database import update_without_waiting
from authzconsole.common.sign_in_methods import FINGERPRINT_CHARACTERS
from authzconsole.models import ApiToken, TokenScope, max_token_lifetime
from entities.errors import Refusal
from entities.frozen import frozen
from entities.text import storage_fault
from entities.vocabulary import clip
from grants.active_generation import ACTIVE_GENERATION_SQL, generation_or_default
from grants.authority.transactions import (
    administrator_transaction,
    check_can_manage_account,
    check_capability,
)
from grants.bulk_rows import database_time
from grants.evaluation.raw_statement import fetch_rows
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import User
from grants.outcomes import Outcome
from grants.principal_names import control_character_fault
from grants.principals.renaming import names_since
from grants.roles.capabilities import CHANGING_CAPABILITIES, Capability, capabilities_of

# lets secret scanners recognize leaked tokens
PREFIX = "azc_"
MAX_NAME_CHARACTERS = 100
LAST_USE_RESOLUTION = timedelta(minutes=1)
# Of a service account, these scopes allow more than its console role. Only an account that may do the same
# can give them.
SERVICE_SCOPES = {TokenScope.DECIDE: Capability.READ_ALL, TokenScope.PROVISION: Capability.CHANGE_GRANTS}
_OWNER_COLUMNS = ("id", "username", "is_active", "role", "is_principal", "is_service")


class TokenError(Refusal, ValueError):
    """A token cannot be created or revoked; the message says why."""


class TokenRefused(ValueError):
    """A token is not valid, or is no longer valid; the message can be shown to the caller."""


class TokenUnknown(TokenRefused):
    """No token has this secret, not even a revoked or expired one."""


@frozen
class IssuedToken:
    """A new token with its secret, which is not stored."""

    token: ApiToken
    secret: str


@frozen
class ValidToken:
    """A verified token.

    number: its primary key. scopes: values of TokenScope. generation: the name of the active generation.
    issuer: the account or command that created the token. owner_values: the current values of _OWNER_COLUMNS.
    is_unlimited: see ApiToken.
    """

    number: int
    owner_id: int
    scopes: frozenset[str]
    generation: str
    issuer: str = field(default="", compare=False)
    owner_values: tuple = field(default=(), compare=False)
    is_unlimited: bool = field(default=False, compare=False)

    @property
    def owner(self) -> User:
        """Return the owner, with the columns that decide what a caller may ask. Runs no query."""
        return User(**dict(zip(_OWNER_COLUMNS, self.owner_values, strict=True)))

    @property
    def owner_name(self) -> str:
        return self.owner_values[1]

    @property
    def can_ask_about_all(self) -> bool:
        """Return whether the token may ask about any subject, by its scopes and the current role of its
        owner.

        A token of an ordinary account may only ask about its owner, as the account itself. A service account
        exists to ask on behalf of a program, so the scope decides.
        """
        _, _, _, role, _, is_service = self.owner_values
        can_read_all = is_service or self.is_unlimited or Capability.READ_ALL in capabilities_of(role)
        return TokenScope.DECIDE in self.scopes and can_read_all


def create_token(*, author: Author, owner: str, name: str, scopes: Iterable[str], days: int) -> IssuedToken:
    """Create a token of the account `owner` that expires in `days`.

    An account can create tokens for itself and for service accounts, and a command for every account. The
    limit of `days` is TOKEN_MAX_DAYS. Raise TokenError if a value is invalid, NotAdministrator if the author
    may not write.
    """
    scopes = _checked_scopes(name, scopes, days)
    with administrator_transaction(author, capability=Capability.MANAGE_TOKENS) as head:
        user = None if storage_fault(owner) else User.objects.filter(username=owner).first()
        _check_owner(owner, user, scopes, author)
        secret, now = PREFIX + secrets.token_urlsafe(32), timezone.now()
        token = ApiToken.objects.create(
            name=name,
            owner=user,
            digest=_digest(secret),
            scopes=" ".join(scopes),
            issued_by=author.name,
            created_at=now,
            limit_starts_at=now,
            expires_at=now + timedelta(days=days),
        )
        detail = (
            f"{token} for {', '.join(scopes)}, until {token.expires_at:%Y-%m-%d}, fingerprint "
            f"{token.digest[:FINGERPRINT_CHARACTERS]}"
        )
        append_to_journal(
            head, [JournalEntry("token-add", principal=str(user), detail=detail)], author=author
        )
    return IssuedToken(token, secret)


def revoke_token(*, author: Author, number: int) -> Outcome:
    """Revoke a token immediately; its row is kept.

    Raise TokenError if there is none, NotAdministrator like `create_token`.
    """
    with administrator_transaction(author, capability=Capability.MANAGE_TOKENS) as head:
        token = ApiToken.objects.select_related("owner").filter(pk=number).first()
        if token is None:
            raise TokenError(f"there is no token with the number {number}")
        if token.revoked_at is not None:
            return Outcome(False, f"the token {token} is revoked already: nothing changed", head.revision)
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
        change = JournalEntry("token-revoke", principal=str(token.owner), detail=str(token))
        revision = append_to_journal(head, [change], author=author)
    return Outcome(True, f"the token {token} of {token.owner} is revoked", revision)


# Plain SQL, because every decision starts with this statement, and the ORM takes longer to build it than the
# database to execute it. It also reads the active generation, which saves a second query.
_VERIFY_SQL = f"""
SELECT t.id, t.scopes, t.revoked_at IS NULL, t.expires_at > %s AND t.limit_starts_at > %s,
  t.last_used_at IS NULL OR t.last_used_at <= %s, ({ACTIVE_GENERATION_SQL}), t.issued_by,
  u.id, u.username, u.is_active, u.role, u.is_principal, u.is_service, t.is_unlimited
FROM {ApiToken._meta.db_table} t JOIN {User._meta.db_table} u ON u.id = t.owner_id WHERE t.digest = %s"""


def verify_token(secret: str) -> ValidToken:
    """Return the token with this secret.

    Raise TokenRefused if it is not valid. Runs one query, and one write per minute.
    """
    now = timezone.now()
    times = now, now - max_token_lifetime(), now - LAST_USE_RESOLUTION
    rows = fetch_rows(_VERIFY_SQL, [*map(database_time, times), _digest(secret)])
    if not rows:
        raise TokenUnknown("the token is unknown")
    (
        number,
        scopes,
        is_unrevoked,
        is_unexpired,
        is_update_due,
        generation_name,
        issuer,
        *owner,
        is_unlimited,
    ) = rows[0]
    owner_id, _, is_owner_active, *_ = owner
    if not is_unrevoked:
        raise TokenRefused("the token was revoked")
    if not is_unexpired:
        raise TokenRefused("the token has expired")
    if not is_owner_active:
        raise TokenRefused("the account of the token is inactive")
    if is_update_due:
        update_without_waiting(ApiToken.objects.filter(pk=number), last_used_at=now)
    return ValidToken(
        number,
        owner_id,
        frozenset(scopes.split()),
        generation_or_default(generation_name).name,
        issuer,
        tuple(owner),
        bool(is_unlimited),
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _checked_scopes(name: str, scopes: Iterable[str], days: int) -> list[str]:
    """Return the scopes in the order of TokenScope.

    Raise TokenError if the name, the scopes or the lifetime are invalid.
    """
    if not name.strip() or len(name) > MAX_NAME_CHARACTERS:
        raise TokenError(f"the name of a token must have 1 to {MAX_NAME_CHARACTERS} characters")
    if fault := control_character_fault("the name", name):
        raise TokenError(fault)
    scopes = set(scopes)
    if not scopes or scopes - set(TokenScope.values):
        raise TokenError(f"a token needs one or more of the scopes {', '.join(TokenScope.values)}")
    if not 1 <= days <= settings.TOKEN_MAX_DAYS:
        raise TokenError(f"the lifetime of a token must be 1 to {settings.TOKEN_MAX_DAYS:,} days")
    return [scope for scope in TokenScope.values if scope in scopes]


def _check_owner(name: str, user: User | None, scopes: list[str], author: Author) -> None:
    if user is None or not user.is_active:
        raise TokenError(f"`{clip(name)}` is not an active account of this console, so it cannot own a token")
    if author.user_id not in (None, user.pk) and not user.is_service:
        raise TokenError(
            f"{user} is another person's account: create tokens for yourself or for a service account, because a "
            f"token acts on behalf of its owner"
        )
    if TokenScope.PROVISION in scopes and not user.is_service:
        raise TokenError(
            f"{user} is not a service account: only tokens of service accounts can have the scope "
            f"`{TokenScope.PROVISION}`"
        )
    if TokenScope.ADMINISTER in scopes and not user.can(*CHANGING_CAPABILITIES):
        raise TokenError(
            f"{user} is not an administrator of this console, so its tokens cannot have the scope "
            f"`{TokenScope.ADMINISTER}`"
        )
    check_can_manage_account(author, user)
    for scope, capability in SERVICE_SCOPES.items():
        if user.is_service and scope in scopes:
            check_capability(author, capability)


def token_creators(token: int) -> set[int]:
    """Return the key of the account that created the token; empty if a command did. Runs three queries."""
    issuers = ApiToken.objects.filter(pk=token).values_list("issued_by", flat=True)
    names = set().union(*map(_possible_names(), issuers))
    return set(User.objects.filter(username__in=names).values_list("pk", flat=True))


def service_accounts_of(accounts: Collection[int]) -> set[int]:
    """Return the service accounts with an active token that one of these accounts created.

    Runs at most three queries.
    """
    rows = (
        ApiToken.objects.active()
        .filter(owner__is_service=True)
        .order_by()
        .values_list("owner_id", "issued_by")
    )
    tokens = list(rows.distinct())
    if not tokens:
        return set()
    own_names, possible_names = (
        set(User.objects.filter(pk__in=accounts).values_list("username", flat=True)),
        _possible_names(),
    )
    return {owner for owner, issuer in tokens if not own_names.isdisjoint(possible_names(issuer))}


def _possible_names() -> Callable[[str], set[str]]:
    """Return a function that maps a stored name to the accounts that may have had this name. Runs one query.

    After renames, the name can belong to another account. Then the function returns both.
    """
    current = names_since(0)
    return lambda name: {name, current(f"user:{name}").removeprefix("user:")}
