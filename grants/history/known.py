"""Find the first journal line about an address or a principal. Its earlier state is unknown."""

from datetime import datetime

from django.db.models import Min

from entities.address import Address
from entities.frozen import frozen
from grants.models import JournalLine
from grants.models.history import EntityPeriod, GroupPeriod, HistoryPrincipal, UserPeriod
from grants.principal_names import parse_principal

# the only author of imports; an account cannot have this name (grants.author_names)
IMPORT_AUTHOR = "import_tenant"


@frozen
class KnownSince:
    """The first journal line about an address or a principal.

    is_import: an import wrote the line, so the state before it existed elsewhere and is unknown.
    """

    revision: int
    at: datetime
    action: str
    is_import: bool


def known_since(subject: Address | str) -> KnownSince | None:
    """Return the first line about an address, or about a principal in written form; None if there is none.

    A renamed principal keeps its first line. Runs two queries, in the present (not inside `as_of`).
    """
    first = (
        _first_revision_of_address(subject)
        if isinstance(subject, Address)
        else _first_revision_of_principal(subject)
    )
    line = first and JournalLine.objects.filter(revision=first).values_list("at", "action", "actor").first()
    if not line:
        return None
    at, action, actor = line
    return KnownSince(first, at, action, actor == IMPORT_AUTHOR)


def _first_revision_of_address(address: Address) -> int | None:
    periods = EntityPeriod.objects.filter(kind=address.kind, key=address.key)
    return periods.aggregate(first=Min("from_revision"))["first"]


def _first_revision_of_principal(principal: str) -> int | None:
    kind, name = parse_principal(principal)
    ids = HistoryPrincipal.objects.filter(type=kind, name=name).values("pk")
    periods = (
        UserPeriod.objects.filter(user__in=ids)
        if kind == "user"
        else GroupPeriod.objects.filter(group__in=ids)
    )
    return periods.aggregate(first=Min("from_revision"))["first"]
