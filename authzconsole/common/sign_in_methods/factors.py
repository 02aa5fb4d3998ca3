"""Remove all second factors of an account, with the journal line."""

from allauth.mfa.models import Authenticator

from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import JournalHead, User
from grants.verification.facts import APP_TITLE, CODES_TITLE, PASSKEY_PREFIX


def factor_title(factor: Authenticator) -> str:
    """Return the name of a factor in the journal."""
    if factor.type == Authenticator.Type.WEBAUTHN:
        return f"{PASSKEY_PREFIX}{factor.wrap().name}"
    return APP_TITLE if factor.type == Authenticator.Type.TOTP else CODES_TITLE


def remove_all_factors(head: JournalHead, author: Author, user: User) -> list[str]:
    """Remove all factors, inside an `administrator_transaction` of the caller. Return their titles."""
    factors = Authenticator.objects.filter(user=user)
    titles = sorted(factor_title(factor) for factor in factors)
    if titles:
        factors.delete()
        append_to_journal(
            head, [JournalEntry("factor-reset", principal=str(user), detail=", ".join(titles))], author=author
        )
    return titles
