"""Assign users and groups as data stewards of namespaces."""

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import Address
from entities.selectors import entity_at
from grants.authority.proposals import propose_first
from grants.authority.transactions import administrator_transaction
from grants.errors import PrincipalError, StewardError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import NamespaceSteward, User, type_of
from grants.outcomes import Outcome
from grants.principal_names import parse_principal, principals_by_name
from grants.roles.capabilities import Capability


def add_steward(*, author: Author, namespace: Address, principal: str) -> Outcome:
    """Make a user or a group, such as `group:analysts`, data steward of a registered namespace. With FOUR_EYES,
    the first of two administrators only proposes it.

    Raise StewardError if there is no such namespace, PrincipalError if there is no such principal.
    """
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        if namespace.kind != "namespace" or entity_at(namespace) is None:
            raise StewardError(
                f"{namespace} is not a registered namespace: only a namespace can have data stewards"
            )
        column = _column(principal)
        if NamespaceSteward.objects.filter(namespace=namespace.key, **column).exists():
            return Outcome(
                False, f"{principal} is a data steward of {namespace} already: nothing changed", head.revision
            )
        entry = JournalEntry("steward-add", principal=principal, entity=str(namespace))
        title = f"{principal} as data steward of {namespace}"
        if proposed := propose_first(head, author, entry, "steward-propose", title):
            return proposed
        NamespaceSteward.objects.create(
            namespace=namespace.key,
            **column,
            assigned_by=author.name,
            assigned_at=timezone.now(),
            reason=author.reason,
        )
        revision = append_to_journal(head, [entry], author=author)
    return Outcome(True, f"{principal} is a data steward of {namespace} now", revision)


def remove_steward(*, author: Author, namespace: Address, principal: str) -> Outcome:
    """End the stewardship of a user or a group for a namespace.

    Raise PrincipalError if there is no such principal.
    """
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        removed, _ = NamespaceSteward.objects.filter(namespace=namespace.key, **_column(principal)).delete()
        if not removed:
            return Outcome(
                False, f"{principal} is not a data steward of {namespace}: nothing changed", head.revision
            )
        revision = append_to_journal(
            head, [JournalEntry("steward-remove", principal=principal, entity=str(namespace))], author=author
        )
    return Outcome(True, f"{principal} is no longer a data steward of {namespace}", revision)


def _column(principal: str) -> dict[str, User | Group]:
    """Return the column with the row of the principal."""
    kind, _ = parse_principal(principal)
    row = principals_by_name([principal]).get(principal)
    if row is None:
        raise PrincipalError(f"{principal} does not exist: add it first, or correct the name")
    return {kind: row}


def end_stewardships(principal: User | Group) -> list[JournalEntry]:
    """Delete the stewardships in the transaction of the removal. Return the changes for the journal."""
    rows = NamespaceSteward.objects.filter(**{type_of(principal).name: principal})
    entries = [
        JournalEntry("steward-remove", principal=row.principal, entity=str(row.address))
        for row in rows.select_related("user", "group").order_by("namespace")
    ]
    rows.delete()
    return entries
