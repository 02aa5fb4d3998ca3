"""Add, remove and reset the second factors of accounts, with their journal lines.

INVARIANT: only the owner adds a factor. The owner removes single factors; administrators and commands remove
all of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.db import transaction

from authzconsole.common.sign_in_methods.factors import factor_title, remove_all_factors
from authzconsole.web.accounts.factors.codes import LAST_COUNTER
from grants.authority.transactions import administrator_transaction, check_can_manage_account
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import User
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability
from grants.verification.facts import APP_TITLE, CODES_TITLE

Recorder = Callable[[str, str], None]


class FactorError(GrantError):
    """The factor cannot be added or removed; the message says why."""


def add_app(*, author: Author, user: User, secret: str, last_counter: int = -1) -> list[str]:
    """Add an authenticator app with this secret. Return the recovery codes that were generated with the first
    factor.

    last_counter: the time step of the code that proved the secret; this code and older ones are not accepted
    at sign-in.
    """
    with _own_factors(author, user) as record:
        if Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists():
            raise FactorError("the account has an authenticator app already: remove it first")
        factor = TOTP.activate(user, secret).instance
        factor.data[LAST_COUNTER] = last_counter
        factor.save(update_fields=["data"])
        record("factor-add", APP_TITLE)
        return _first_recovery_codes(user, record)


def add_passkey(*, author: Author, user: User, name: str, credential: dict) -> list[str]:
    """Add a passkey. Return the recovery codes that were generated with the first factor."""
    with _own_factors(author, user) as record:
        record("factor-add", factor_title(WebAuthn.add(user, name, credential).instance))
        return _first_recovery_codes(user, record)


def remove_factor(*, author: Author, user: User, pk: int) -> str:
    """Remove a factor and return its title. With the last factor, the recovery codes are removed too."""
    with _own_factors(author, user) as record:
        factor = (
            Authenticator.objects.filter(user=user, pk=pk)
            .exclude(type=Authenticator.Type.RECOVERY_CODES)
            .first()
        )
        if factor is None:
            raise FactorError("the account has no such factor")
        title = factor_title(factor)
        factor.delete()
        record("factor-remove", title)
        rest = Authenticator.objects.filter(user=user)
        if not rest.exclude(type=Authenticator.Type.RECOVERY_CODES).exists() and rest.exists():
            rest.delete()
            record("factor-remove", CODES_TITLE)
        return title


def generate_recovery_codes(*, author: Author, user: User) -> list[str]:
    """Replace the recovery codes by new ones and return them."""
    with _own_factors(author, user) as record:
        factors = Authenticator.objects.filter(user=user)
        if not factors.exclude(type=Authenticator.Type.RECOVERY_CODES).exists():
            raise FactorError("recovery codes need another factor: set one up first")
        factors.filter(type=Authenticator.Type.RECOVERY_CODES).delete()
        return _first_recovery_codes(user, record)


def reset_factors(*, author: Author, name: str) -> Outcome:
    """Remove all factors of an account, for example after a phone was lost."""
    with administrator_transaction(author, capability=Capability.MANAGE_ACCOUNTS) as head:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise FactorError(f"user:{name} does not exist")
        check_can_manage_account(author, user)
        if titles := remove_all_factors(head, author, user):
            return Outcome(
                True, f"the second factors of {user} were removed: {', '.join(titles)}", head.revision
            )
        return Outcome(False, f"{user} has no second factor: nothing changed", head.revision)


def _first_recovery_codes(user: User, record: Recorder) -> list[str]:
    if Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).exists():
        return []
    codes = RecoveryCodes.activate(user).generate_codes()
    record("factor-add", CODES_TITLE)
    return codes


@contextmanager
def _own_factors(author: Author, user: User) -> Iterator[Recorder]:
    """Open a transaction, lock the journal, and yield a function that writes a line about a factor of this
    user.
    """
    if author.user_id != user.pk:
        raise FactorError("only the owner of an account can change its factors")
    with transaction.atomic():
        head = lock_journal()
        yield lambda action, title: append_to_journal(
            head, [JournalEntry(action, principal=str(user), detail=title)], author=author
        )
