"""Prepare a campaign: write its items in batches, each in a transaction, and open it.

Preparation can be repeated: it starts from the beginning after the process was killed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict

from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from entities.frozen import frozen
from grants.bulk_rows import refresh_statistics
from grants.errors import GrantError
from grants.history import catch_up
from grants.journal import current_revision
from grants.models import User
from grants.models.reviews import Campaign, CampaignState, ItemSource, ReviewItem
from grants.reviews.campaigns import CampaignOptions, check_assignment
from grants.reviews.errors import ReviewError
from grants.reviews.item_levels import item_levels
from grants.reviews.items_sql import insert_items_sql, preparation_rules, reviewer_counts_sql
from grants.reviews.scope import check_scope_names, parse_scope, reviewed_rows
from grants.reviews.shares import store_shares

ROWS_PER_BATCH = 20_000
ITEMS_PER_DELETION = 20_000
MAX_ITEMS = 5_000_000
# larger reviews are not assigned before they start, so that the form stays fast
MAX_PREVIEWED_ITEMS = 10_000


@frozen
class ReviewPreview:
    """What a review would contain if it started now.

    items: the number of items, or MAX_PREVIEWED_ITEMS + 1 for more. reviewers: the names with the number of their
    items, most first; an empty name means administrators. It is None for a larger review.
    """

    items: int
    reviewers: list[tuple[str, int]] | None

    @property
    def is_larger(self) -> bool:
        return self.reviewers is None


def preview_review(options: CampaignOptions) -> ReviewPreview:
    """Return who would review how many items. Only the scope and the reviewers of the options count.

    Raise ReviewError if these are invalid. Runs at most two queries for each source of items, and about five more.
    """
    check_assignment(options)
    at = timezone.now().replace(microsecond=0)
    scope = parse_scope(options.scope)
    batches = {source: reviewed_rows(scope, source, at) for source in map(ItemSource, scope.reviewed_sources)}
    items = 0
    for rows in batches.values():
        items += rows.order_by()[: MAX_PREVIEWED_ITEMS + 1 - items].count()
        if items > MAX_PREVIEWED_ITEMS:
            return ReviewPreview(items, None)
    rules, counts = preparation_rules(Campaign(**asdict(options)), at), Counter[int | None]()
    with connection.cursor() as cursor:
        for source, rows in batches.items():
            cursor.execute(*reviewer_counts_sql(rules, source, rows))
            for reviewer, count in cursor.fetchall():
                counts[int(reviewer) if reviewer else None] += count
    names = dict(User.objects.filter(pk__in=filter(None, counts)).values_list("pk", "username"))
    reviewers = [(names.get(reviewer, ""), count) for reviewer, count in counts.items()]
    return ReviewPreview(items, sorted(reviewers, key=lambda row: (-row[1], row[0])))


def prepare_campaign(
    campaign: Campaign,
    *,
    rows_per_batch: int = ROWS_PER_BATCH,
    progress: Callable[[int], None] | None = None,
    confirm: Callable[[], None] = lambda: None,
) -> Campaign:
    """Write the items of a campaign that is being prepared, and open it. A GrantError, which a user can correct, makes the
    campaign fail.

    progress: called with the number of items after each batch. confirm: called in each transaction; raises
    if another attempt prepares the campaign.
    """
    try:
        delete_items(campaign)
        revision = current_revision()
        _insert_items(campaign, rows_per_batch, progress, confirm)
    except GrantError as error:
        fail_preparation(campaign, str(error))
        return campaign
    refresh_statistics(ReviewItem)
    levels = item_levels(ReviewItem.objects.filter(campaign=campaign))
    with transaction.atomic():
        confirm()
        count = store_shares(campaign)
        Campaign.objects.filter(pk=campaign.pk, state=CampaignState.PREPARING).update(
            state=CampaignState.OPEN,
            opened_at=timezone.now(),
            base_revision=revision,
            item_count=count,
            levels=levels.as_json(),
            error="",
        )
    campaign.refresh_from_db()
    return campaign


def fail_preparation(campaign: Campaign, error: str) -> None:
    """Mark a campaign that is being prepared as failed, with this message, and delete its items."""
    Campaign.objects.filter(pk=campaign.pk, state=CampaignState.PREPARING).update(
        state=CampaignState.FAILED, error=error
    )
    delete_items(campaign)
    campaign.refresh_from_db()


def delete_items(campaign: Campaign) -> None:
    """Delete the items of a campaign, in batches."""
    while True:
        rows = ReviewItem.objects.filter(campaign=campaign).order_by("id").values("pk")[:ITEMS_PER_DELETION]
        if not ReviewItem.objects.filter(pk__in=list(rows.values_list("pk", flat=True))).delete()[0]:
            return


def _insert_items(
    campaign: Campaign,
    rows_per_batch: int,
    progress: Callable[[int], None] | None,
    confirm: Callable[[], None],
) -> None:
    count = 0
    for statement, parameters in _statements(campaign, rows_per_batch):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            count += cursor.rowcount
            if count > MAX_ITEMS:
                raise ReviewError(
                    f"the review would have more than {MAX_ITEMS:,} items, which is the limit: choose a "
                    f"smaller scope"
                )
            confirm()
            being_prepared = Campaign.objects.filter(pk=campaign.pk, state=CampaignState.PREPARING)
            if not being_prepared.update(item_count=count):
                raise ReviewError("the review was cancelled while it was prepared")
        if progress:
            progress(count)
    if not count:
        raise ReviewError("the scope contains no grants and no memberships: choose another scope")


def _statements(campaign: Campaign, rows_per_batch: int) -> Iterator[tuple[str, list]]:
    """Yield an INSERT for each batch, with its parameters.

    Raise ReviewError if a name does not exist.
    """
    scope, at = parse_scope(campaign.scope), timezone.now().replace(microsecond=0)
    check_scope_names(scope)
    rules = preparation_rules(campaign, at)
    sources = [ItemSource(source) for source in scope.reviewed_sources]
    if any(source.is_membership for source in sources):
        # the history knows since when memberships exist
        catch_up()
    for source in sources:
        place = "pk" if source.is_membership else "content_object_id"
        rows, last = reviewed_rows(scope, source, at), 0
        while True:
            following = rows.filter(**{f"{place}__gt": last})
            first_rows = following.order_by(place).values(place)[:rows_per_batch]
            last = first_rows.aggregate(last=Max(place))["last"]
            if last is None:
                break
            yield insert_items_sql(rules, source, following.filter(**{f"{place}__lte": last}))
