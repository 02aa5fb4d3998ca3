"""End the stewardships of a user or group that is removed."""

from django.contrib.auth.models import Group

from grants.journal import JournalEntry
from grants.models import NamespaceSteward, User


def end_stewardships(principal: User | Group) -> list[JournalEntry]:
    """Delete the stewardships in the transaction of the removal. Return the changes for the journal."""
    column = {"user" if isinstance(principal, User) else "group": principal}
    rows = list(
        NamespaceSteward.objects.select_related("user", "group").filter(**column).order_by("namespace")
    )
    NamespaceSteward.objects.filter(**column).delete()
    return [JournalEntry("steward-remove", principal=row.principal, entity=str(row.address)) for row in rows]
