"""The catalogue: what the accounts that decide about requests publish, so that people who see nothing can request it.

A published entity is visible on purpose: its address, its description, and what decides about it. Nothing else about it is.

INVARIANT: `published_items` is the only source of what accounts see of the catalogue. It leaves out entities that are not
live, and those that were deleted since they were published.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from statistics import median

from django.conf import settings
from django.db.models import CharField, Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Concat
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.vocabulary import KINDS, Privilege, clip
from grants.authority.limits import DelegationLimits
from grants.authority.rights import is_approver
from grants.errors import NotApprover, RequestError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import (
    AccessRequest,
    AccessRequestPart,
    JournalLine,
    NamespaceApprovers,
    NamespaceSteward,
    PublishedItem,
    RequestState,
    User,
)
from grants.outcomes import Outcome
from grants.requests.approvers import approver_scope
from grants.requests.create import MAX_PARTS
from grants.requests.steps import request_transaction, stored_text

MAX_DESCRIPTION_CHARACTERS = 500
# the decisions that tell how long one usually takes: those of this window, at most MAX_DECISIONS, and no claim below
# MIN_DECISIONS, so that a single request does not show
WINDOW = timedelta(days=90)
MAX_DECISIONS, MIN_DECISIONS = 1_000, 3
STEWARDS, APPROVERS, ADMIN_HOLDERS, CONSOLE = "stewards", "approvers", "admin-holders", "console"
# who decides, the closest to the data first; the words name no user
DECIDERS = {
    STEWARDS: "data stewards of the namespace",
    APPROVERS: "the approvers of the namespace",
    ADMIN_HOLDERS: "holders of ADMIN on it",
    CONSOLE: "administrators and approvers of this console",
}


def published_items() -> QuerySet[PublishedItem]:
    """Return what every account may see of the catalogue, with the entities."""
    address = Concat("entity__kind", Value(":"), "entity__key", output_field=CharField())
    deletions = JournalLine.objects.filter(
        action="delete", entity=OuterRef("address_text"), revision__gt=OuterRef("revision")
    )
    return (
        PublishedItem.objects.filter(entity__state=State.LIVE)
        .annotate(address_text=address)
        .filter(~Exists(deletions))
        .select_related("entity")
    )


def published_item_at(address: Address) -> PublishedItem | None:
    return published_items().filter(entity__kind=address.kind, entity__key=address.key).first()


def can_publish(account: User, address: Address) -> bool:
    """Return whether the account may publish an entity that it sees: it decides about requests for it.

    Runs at most five queries; none for accounts that decide about everything.
    """
    scope = approver_scope(account)
    is_in_namespaces = address.namespace is not None and address.namespace.key in scope.namespaces
    return scope.decides_all or is_in_namespaces or is_approver(account, address)


def publish(*, author: Author, entity: Entity, operations: Sequence[str], description: str) -> Outcome:
    """Publish an entity, or change its entry. The caller checks that the author sees the entity.

    Raise NotApprover if the author does not decide about requests for it, RequestError if the input is invalid.
    """
    address, names = entity.address, list(dict.fromkeys(operations))
    text = stored_text(description, "description")
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        raise RequestError(
            f"the description has {len(text):,} characters; {MAX_DESCRIPTION_CHARACTERS} are allowed"
        )
    known = {*KINDS[address.kind].operations, *map(str, Privilege)}
    if unknown := [name for name in names if name not in known]:
        raise RequestError(f"`{clip(unknown[0])}` is neither an operation of {address} nor a privilege")
    if not 1 <= len(names) <= MAX_PARTS:
        raise RequestError(f"choose from 1 to {MAX_PARTS} operations that can be requested")
    with request_transaction(author) as (head, account):
        _check_can_publish(account, address)
        if not Entity.objects.filter(pk=entity.pk, state=State.LIVE).exists():
            raise RequestError(f"{address} is not live, so no user could use it: register it first")
        item = published_item_at(address)
        if item and (item.operations, item.description) == (names, text):
            return Outcome(False, f"{address} is published like this already: nothing changed", head.revision)
        values = {
            "operations": names,
            "description": text,
            "published_by": author.name,
            "published_at": timezone.now(),
        }
        entry = JournalEntry(
            "catalogue-publish",
            entity=str(address),
            detail=PublishedItem(operations=names, description=text).text,
        )
        revision = append_to_journal(head, [entry], author=author)
        PublishedItem.objects.update_or_create(entity=entity, defaults=values | {"revision": revision})
    return Outcome(True, f"{address} is in the catalogue now: every account can see and request it", revision)


def withdraw(*, author: Author, entity: Entity) -> Outcome:
    """Take an entity out of the catalogue. Raise NotApprover if the author does not decide about requests for it."""
    address = entity.address
    with request_transaction(author) as (head, account):
        _check_can_publish(account, address)
        removed, _ = PublishedItem.objects.filter(entity=entity).delete()
        if not removed:
            return Outcome(False, f"{address} is not in the catalogue: nothing changed", head.revision)
        revision = append_to_journal(
            head, [JournalEntry("catalogue-withdraw", entity=str(address))], author=author
        )
    return Outcome(True, f"{address} is no longer in the catalogue", revision)


def _check_can_publish(account: User, address: Address) -> None:
    if not can_publish(account, address):
        raise NotApprover(
            f"only accounts that decide about requests for {address} can publish it: ask its data stewards, or the "
            f"administrators of this console"
        )


def deciders_of(addresses: Iterable[Address]) -> dict[Address, list[str]]:
    """Return which of DECIDERS decide about requests for each of these addresses. Runs at most three queries."""
    addresses = list(addresses)
    names = {address.namespace.key for address in addresses if address.namespace}
    stewarded, approved = (
        set(model.objects.filter(namespace__in=names).values_list("namespace", flat=True))
        for model in (NamespaceSteward, NamespaceApprovers)
    )
    limits = DelegationLimits.current() if settings.DELEGATION else None

    def deciders(address: Address) -> list[str]:
        namespace = address.namespace.key if address.namespace else ""
        decides = {
            STEWARDS: namespace in stewarded,
            APPROVERS: namespace in approved,
            ADMIN_HOLDERS: limits is not None and limits.allows(address, None),
            CONSOLE: True,
        }
        return [decider for decider in DECIDERS if decides[decider]]

    return {address: deciders(address) for address in addresses}


@frozen
class UsualTimes:
    """How long decisions usually take, in seconds. overall: of all requests; None if there are too few decisions."""

    overall: float | None
    by_namespace: Mapping[str, float]

    def of(self, address: Address) -> float | None:
        """Return the time in the namespace of a published address, or else that of all requests."""
        return self.by_namespace.get(address.namespace.key if address.namespace else "", self.overall)


def usual_times(namespaces: Collection[str] = ()) -> UsualTimes:
    """Return the medians of the newest MAX_DECISIONS decisions of the last 90 days. Runs two queries."""
    decided = AccessRequest.objects.filter(
        state__in=(RequestState.APPROVED, RequestState.DENIED), decided_at__gt=timezone.now() - WINDOW
    )
    rows = decided.order_by("-pk").values_list("pk", "created_at", "decided_at")[:MAX_DECISIONS]
    seconds = {pk: (decided_at - created_at).total_seconds() for pk, created_at, decided_at in rows}
    by_namespace = defaultdict(list)
    parts = AccessRequestPart.objects.filter(
        request__in=list(seconds), namespace__in=namespaces, is_hidden=False
    )
    for namespace, request in parts.values_list("namespace", "request").distinct():
        by_namespace[namespace].append(seconds[request])
    return UsualTimes(
        _median(seconds.values()),
        {name: value for name, values in by_namespace.items() if (value := _median(values)) is not None},
    )


def _median(values: Collection[float]) -> float | None:
    return median(values) if len(values) >= MIN_DECISIONS else None
