"""Find the items of an open campaign that need no answer any more, because their row or their entity was
removed since.

Pages and files compute this for their rows. Totals, filters and answers use the column `removed`, which
`mark_removed_items` keeps up to date: counting the items of a large campaign takes longer than a page may
take.
"""

from collections.abc import Iterator, Sequence

from django.db import transaction
from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When

from entities.models import Entity, State
from grants.journal import current_revision, lock_journal
from grants.models import JournalLine
from grants.models.reviews import Campaign, ItemSource, Removal, ReviewItem
from grants.reviews.scope import REVIEWED_ROWS
from grants.reviews.shares import change_shares, count_changes, counts_by_reviewer

# the journal is locked for each batch, and other changes wait
ITEMS_PER_BATCH = 20_000
# the actions after which an item can be removed, or its entity be live again
ACTIONS = ("revoke", "member-remove", "group-remove", "user-remove", "delete", "recreate", "register")
_IS_DELETED = ~Q(entity_state=State.DELETED) & Q(
    Exists(Entity.objects.filter(pk=OuterRef("entity_id"), state=State.DELETED))
)


def missing_condition(source: str) -> Q:
    """Return the condition that an item of this source has no row any more."""
    return Q(source=source) & ~Exists(REVIEWED_ROWS[source].filter(pk=OuterRef("grant_id")))


def with_current_removal(items: QuerySet[ReviewItem], campaign: Campaign) -> QuerySet[ReviewItem]:
    """Let `removal` of items of an open campaign tell the present, for files.

    Other campaigns keep what is stored.
    """
    return _annotated(items) if campaign.is_open else items


def load_current_removal(items: Sequence[ReviewItem], campaign: Campaign) -> None:
    """Let `removal` of these items of an open campaign tell the present, for pages. Runs one query for these
    items.

    In the query of a page of a large campaign, PostgreSQL would read all grants: it expects that the query
    returns all items.
    """
    if not campaign.is_open or not items:
        return
    rows = _annotated(ReviewItem.objects.filter(pk__in=[item.pk for item in items])).values_list(
        "pk", "current_removal"
    )
    current = dict(rows)
    for item in items:
        item.current_removal = current.get(item.pk, item.removed)


def mark_removed_items(campaign: Campaign) -> None:
    """Store which items of a campaign were removed.

    Do nothing unless the journal has new lines that can remove one.
    """
    checked, revision = max(campaign.checked_revision, campaign.base_revision), current_revision()
    if revision <= checked:
        return
    if JournalLine.objects.filter(revision__gt=checked, revision__lte=revision, action__in=ACTIONS).exists():
        for items in _changed_items(campaign):
            while numbers := list(items.order_by().values_list("pk", flat=True)[:ITEMS_PER_BATCH]):
                _mark(campaign, ReviewItem.objects.filter(pk__among=numbers))
    Campaign.objects.filter(pk=campaign.pk).update(checked_revision=revision)
    campaign.checked_revision = revision


def _changed_items(campaign: Campaign) -> Iterator[QuerySet[ReviewItem]]:
    """Yield queries for the items whose stored mark is wrong.

    The database joins each of them with one table.
    """
    items = ReviewItem.objects.filter(campaign=campaign)
    yield _annotated(items.exclude(removed="")).exclude(current_removal=F("removed"))
    existing = items.filter(removed="")
    yield existing.filter(_IS_DELETED)
    for source in ItemSource.values:
        yield existing.filter(missing_condition(source))


def _mark(campaign: Campaign, items: QuerySet[ReviewItem]) -> None:
    with transaction.atomic():
        lock_journal()
        before = counts_by_reviewer(items)
        items.update(removed=_CURRENT_REMOVAL)
        change_shares(campaign, count_changes(before, counts_by_reviewer(items)))


def _annotated(items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
    return items.annotate(current_removal=_CURRENT_REMOVAL)


_CURRENT_REMOVAL = Case(
    When(_IS_DELETED, then=Value(Removal.ENTITY_DELETED.value)),
    *(When(missing_condition(source), then=Value(Removal.REVOKED.value)) for source in ItemSource.values),
    default=Value(""),
    output_field=CharField(),
)
