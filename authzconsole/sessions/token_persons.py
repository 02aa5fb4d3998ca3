"""Find the accounts that belong to one person because of API tokens (grants.authority.persons).

An account that creates a token of a service account can act as the service account.
"""

from collections.abc import Callable, Collection

from authzconsole.models import ApiToken
from grants.models import User
from grants.principals.renaming import names_since


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
