"""The tokens as facts that `verify_journal` compares with the journal."""

from collections.abc import Iterator

from authzconsole.models import ApiToken
from grants.verification.facts import ROWS_PER_BATCH, Fact, fact_key

FINGERPRINT_CHARACTERS = 16


def facts_of_tokens() -> Iterator[Fact]:
    """Yield owner, scopes, expiry, secret and revocation of each token."""
    rows = ApiToken.objects.values_list("pk", "owner__username", "scopes", "expires_at", "digest", "revoked_at")
    for number, owner, scopes, expires_at, digest, revoked_at in rows.iterator(chunk_size=ROWS_PER_BATCH):
        yield fact_key("token", number), f"user:{owner}, {scopes.replace(' ', ', ')}, until {expires_at:%Y-%m-%d}"
        yield fact_key("secret", number), digest[:FINGERPRINT_CHARACTERS]
        if revoked_at is not None:
            yield fact_key("revoked", number), "yes"
