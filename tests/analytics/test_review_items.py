"""Large reviews are prepared by a run with Spark: the same items as the database computes, and no duplicates."""

from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.report import ComputedReport
from analytics.review_items.tables import arrow_schema_of, copied_tables, write_tables
from analytics.runs.services import request_review_items
from analytics.storage import storage_path, storage_root
from authzconsole.reviews.execution import retry_review, sweep_reviews
from grants.models import Job, JobState, Membership, User
from grants.models.reviews import Campaign, CampaignState, ItemSource, ReviewItem
from grants.reviews.campaigns import CampaignOptions, cancel_campaign, create_campaign
from grants.reviews.preparation_sql import ITEM_COLUMNS
from grants.reviews.reviewers import set_manager
from tests.grants.reviews.support import open_campaign, prepare
from tests.grants.reviews.test_preparation import DAY, store_random_tenant
from tests.support.authors import COMMAND
from tests.support.jobs import execute_preparation

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("storage_folder", "sent_tasks"),
]


@pytest.fixture(autouse=True)
def small_limit(settings):
    settings.REVIEW_RUN_ITEMS = 0


def new_campaign(**options) -> Campaign:
    return create_campaign(
        author=COMMAND, options=CampaignOptions("Large review", timezone.now() + 14 * DAY, **options)
    )


def items_of(campaign: Campaign) -> list[tuple]:
    columns = [column for column in ITEM_COLUMNS if column != "campaign_id"]
    return list(ReviewItem.objects.filter(campaign=campaign).order_by("pk").values_list(*columns))


def finish_half(campaign: Campaign) -> None:
    """Answer half of the items, remove some, and finish the campaign."""
    numbers = list(campaign.items.values_list("pk", flat=True))
    campaign.items.filter(pk__in=numbers[::2]).update(answer="keep", answered_at=timezone.now())
    campaign.items.filter(pk__in=numbers[:5]).delete()
    Campaign.objects.filter(pk=campaign.pk).update(state=CampaignState.FINISHED)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "rule", "scope"), [(1, "admin-holders", {}), (2, "manager", {"unused_days": 30})]
)
def test_spark_and_the_database_compute_the_same_items(spark, settings, seed, rule, scope):
    settings.DELEGATION = True
    dice = store_random_tenant(seed)
    group = Group.objects.order_by("pk").first()
    users = list(User.objects.filter(is_active=True).order_by("pk"))
    Membership.objects.update_or_create(
        user=users[0], group=group, defaults={"valid_from": None, "valid_until": None}
    )
    for each in users[1:]:
        set_manager(
            author=COMMAND, name=each.username, manager=dice.choice([u for u in users if u != each]).username
        )
    earlier = open_campaign()
    finish_half(earlier)
    campaigns = [new_campaign(reviewer_rule=rule, escalation_group=group.name, scope=scope) for _ in range(2)]
    Campaign.objects.filter(pk__in=[campaign.pk for campaign in campaigns]).update(previous=earlier)
    campaigns[0].refresh_from_db()
    prepare(campaigns[0], rows_per_batch=50)
    execute_preparation(number=campaigns[1].pk)
    by_database, by_spark = (Campaign.objects.get(pk=campaign.pk) for campaign in campaigns)
    assert by_spark.state == CampaignState.OPEN, by_spark.error
    assert AnalysisRun.objects.get().state == JobState.DONE
    assert items_of(by_spark) == items_of(by_database) != []
    assert by_spark.item_count == by_database.item_count == len(items_of(by_spark))


@pytest.fixture
def computed_campaign(monkeypatch):
    """Replace Spark by a copy of items that the database computed. Return the campaign with these items."""
    store_random_tenant(1)
    campaign = open_campaign()

    def compute_review_items(*, number, folder, progress):
        schema = arrow_schema_of(ReviewItem, ITEM_COLUMNS)
        for source in ItemSource:
            path = Path(storage_path(f"{folder}/{source.value}"))
            path.mkdir(parents=True)
            rows = list(campaign.items.filter(source=source).order_by("pk").values(*ITEM_COLUMNS))
            table = pa.Table.from_pylist([row | {"campaign_id": number} for row in rows], schema)
            for part, first in enumerate(range(0, len(rows) or 1, 40)):
                pq.write_table(table.slice(first, 40), path / f"part-{part:05}.parquet")
        return ComputedReport(7, {})

    monkeypatch.setattr("analytics.runs.execution.compute_review_items", compute_review_items)
    return campaign


def test_computed_items_are_copied_once(computed_campaign):
    campaign = new_campaign()
    # a process that copied some items was killed
    ReviewItem.objects.create(campaign=campaign, source="user", grant_id=1, principal_id=1)
    for _ in range(2):
        execute_preparation(number=campaign.pk)
    campaign.refresh_from_db()
    assert (campaign.state, campaign.base_revision, AnalysisRun.objects.count()) == (CampaignState.OPEN, 7, 1)
    assert items_of(campaign) == items_of(computed_campaign) != []
    sweep_reviews()
    assert AnalysisRun.objects.get().result_removed_at is not None


def test_the_copied_tables_have_the_values_of_the_database(computed_campaign, tmp_path):
    finish_half(computed_campaign)
    campaign = new_campaign()
    Campaign.objects.filter(pk=campaign.pk).update(previous=computed_campaign)
    filesystem, root = storage_root()
    counts = write_tables(filesystem, f"{root}/tables", campaign, lambda: None)
    for rows, columns in copied_tables(campaign):
        name = rows.model._meta.db_table
        stored = {tuple(row.values()) for row in pq.read_table(f"{root}/tables/{name}").to_pylist()}
        assert stored == set(rows.values_list(*columns)), name
        assert counts[name] == rows.count()


def test_a_failed_run_fails_the_review_with_its_message(monkeypatch, computed_campaign):
    def fail(**arguments):
        raise AnalysisError("the storage is full")

    monkeypatch.setattr("analytics.runs.execution.compute_review_items", fail)
    campaign = new_campaign()
    execute_preparation(number=campaign.pk)
    campaign.refresh_from_db()
    assert (campaign.state, campaign.error) == (CampaignState.FAILED, "the storage is full")


def test_a_failed_review_is_prepared_again_by_another_run(monkeypatch, computed_campaign):
    with monkeypatch.context() as broken:
        broken.setattr(
            "analytics.runs.execution.compute_review_items",
            Mock(side_effect=AnalysisError("the storage is full")),
        )
        campaign = new_campaign()
        execute_preparation(number=campaign.pk)
    retry_review(author=COMMAND, number=campaign.pk)
    execute_preparation(number=campaign.pk)
    campaign.refresh_from_db()
    assert campaign.is_open and items_of(campaign) == items_of(computed_campaign) != []
    assert [run.state for run in AnalysisRun.objects.order_by("pk")] == [JobState.FAILED, JobState.DONE]


def test_cancelling_a_review_cancels_its_jobs(computed_campaign):
    campaign = new_campaign()
    run = request_review_items(campaign)
    sweep_reviews()
    run.refresh_from_db()
    assert run.state == JobState.WAITING
    cancel_campaign(author=COMMAND, number=campaign.pk)
    sweep_reviews()
    run.refresh_from_db()
    assert run.state == Job.objects.get(pk=campaign.job_id).state == JobState.CANCELLED


def test_a_small_review_needs_no_run(settings, computed_campaign):
    settings.REVIEW_RUN_ITEMS = computed_campaign.item_count
    campaign = new_campaign()
    execute_preparation(number=campaign.pk)
    campaign.refresh_from_db()
    assert campaign.is_open and not AnalysisRun.objects.exists()
