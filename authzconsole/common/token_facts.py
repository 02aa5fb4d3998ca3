"""The tokens, second factors and identity links as facts that `verify_journal` compares with the journal."""

from collections.abc import Iterator

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.db.models import Count

from authzconsole.models import ApiToken
from grants.bulk_rows import stream_rows
from grants.verification.facts import APP_TITLE, CODES_TITLE, HELD, Fact, fact_key

FINGERPRINT_CHARACTERS = 16


def facts_of_sign_in() -> Iterator[Fact]:
    """Yield the facts of tokens, second factors and identity links."""
    yield from facts_of_tokens()
    yield from _facts_of_factors()
    links = stream_rows(SocialAccount.objects.all(), "provider", "uid", "user__username")
    for provider, subject, owner in links:
        yield fact_key("identity", provider, subject), f"user:{owner}"


def facts_of_tokens() -> Iterator[Fact]:
    """Yield owner, scopes, expiry, secret, revocation and missing limit of each token."""
    columns = "pk", "owner__username", "scopes", "expires_at", "digest", "revoked_at", "is_unlimited"
    for number, owner, scopes, expires_at, digest, revoked_at, is_unlimited in stream_rows(
        ApiToken.objects.all(), *columns
    ):
        yield (
            fact_key("token", number),
            f"user:{owner}, {scopes.replace(' ', ', ')}, until {expires_at:%Y-%m-%d}",
        )
        yield fact_key("secret", number), digest[:FINGERPRINT_CHARACTERS]
        if revoked_at is not None:
            yield fact_key("revoked", number), "yes"
        if is_unlimited:
            yield fact_key("unlimited", number), "yes"


def _facts_of_factors() -> Iterator[Fact]:
    rows = Authenticator.objects.values_list("user__username", "type").annotate(Count("pk")).order_by()
    for owner, type_, count in rows:
        if type_ == Authenticator.Type.WEBAUTHN:
            yield fact_key("passkeys", f"user:{owner}"), str(count)
        else:
            yield (
                fact_key(
                    "factor", f"user:{owner}", APP_TITLE if type_ == Authenticator.Type.TOTP else CODES_TITLE
                ),
                HELD,
            )
