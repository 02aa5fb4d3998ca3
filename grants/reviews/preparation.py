"""Prepare a campaign: write its items in batches, each in a transaction, and open it.

Preparation can be repeated: it starts from the beginning after the process was killed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from django.db import connection, transaction
from django.utils import timezone

from grants.bulk_rows import database_time, refresh_statistics
from grants.errors import GrantError
from grants.history.catch_up import catch_up
from grants.journal import current_revision
from grants.models.reviews import Campaign, CampaignState, ItemSource, ReviewItem
from grants.reviews.errors import ReviewError
from grants.reviews.preparation_rules import preparation_rules
from grants.reviews.preparation_sql import count_sql, insert_sql, last_of_batch_sql
from grants.reviews.scope import parse_scope
from grants.reviews.shares import store_shares

ROWS_PER_BATCH = 20_000
ITEMS_PER_DELETION = 20_000
MAX_ITEMS = 5_000_000


@dataclass(frozen=True, slots=True)
class ItemSupply:
    """The items of a campaign. revision: at which they were read. batches: each inserts items and returns
    their number.
    """

    revision: int
    batches: Iterable[Callable[[], int]]


def prepare_campaign(
    campaign: Campaign,
    *,
    rows_per_batch: int = ROWS_PER_BATCH,
    supply: ItemSupply | None = None,
    progress: Callable[[int], None] | None = None,
    confirm: Callable[[], None] = lambda: None,
) -> Campaign:
    """Write the items of a campaign that is being prepared, and open it. A GrantError, which a user can correct, makes the
    campaign fail.

    supply: items that were computed elsewhere; by default, the database computes them in batches.
    progress: called with the number of items after each batch. confirm: called in each transaction; raises
    if another attempt prepares the campaign.
    """
    try:
        delete_items(campaign)
        supply = supply or _database_supply(campaign, rows_per_batch)
        _insert_items(campaign, supply.batches, progress, confirm)
    except GrantError as error:
        fail_preparation(campaign, str(error))
        return campaign
    refresh_statistics(ReviewItem)
    with transaction.atomic():
        confirm()
        count = store_shares(campaign)
        Campaign.objects.filter(pk=campaign.pk, state=CampaignState.PREPARING).update(
            state=CampaignState.OPEN,
            opened_at=timezone.now(),
            base_revision=supply.revision,
            item_count=count,
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


def has_more_items(campaign: Campaign, count: int) -> bool:
    """Return whether the scope of a campaign contains more rows than this.

    Raise ReviewError if a name does not exist.
    """
    scope = parse_scope(campaign.scope)
    rules = preparation_rules(campaign, scope)
    total = 0
    for source in map(ItemSource, scope.reviewed_sources):
        statement, parameters = count_sql(rules, source)
        with connection.cursor() as cursor:
            cursor.execute(statement, [*statement_values(parameters), count + 1 - total])
            total += cursor.fetchone()[0]
    return total > count


def statement_values(parameters: Iterable) -> list:
    """Return the parameters of a statement in the form of the database."""
    return [database_time(value) if hasattr(value, "tzinfo") else value for value in parameters]


def _database_supply(campaign: Campaign, rows_per_batch: int) -> ItemSupply:
    scope = parse_scope(campaign.scope)
    rules = preparation_rules(campaign, scope)
    revision = current_revision()
    if ItemSource.MEMBERSHIP in scope.reviewed_sources:
        # the history knows since when memberships exist
        catch_up()

    def batches() -> Iterator[Callable[[], int]]:
        for source in map(ItemSource, scope.reviewed_sources):
            boundary, boundary_parameters = last_of_batch_sql(rules, source)
            insert, insert_parameters = insert_sql(rules, source)
            after = 0
            while True:
                with connection.cursor() as cursor:
                    cursor.execute(boundary, [*statement_values(boundary_parameters), after, rows_per_batch])
                    last = cursor.fetchone()[0]
                if last is None:
                    break
                yield partial(_execute, insert, [after, last, *statement_values(insert_parameters)])
                after = last

    return ItemSupply(revision, batches())


def _execute(statement: str, parameters: list) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


def _insert_items(
    campaign: Campaign,
    batches: Iterable[Callable[[], int]],
    progress: Callable[[int], None] | None,
    confirm: Callable[[], None],
) -> None:
    count = 0
    for insert in batches:
        with transaction.atomic():
            count += insert()
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
