"""Copy the tables that the evidence of items needs, at one revision, for Spark to read."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q, QuerySet
from pyarrow.fs import FileSystem

from analytics.snapshots.parquet import write_rows
from entities.models import Entity
from grants.models import GroupGrant, JournalLine, Membership, User, UserGrant
from grants.models.history import IS_OPEN, HistoryPrincipal, MembershipPeriod
from grants.models.reviews import Campaign, CampaignState, ReviewItem, UsageDay, UserManagerLink

_PERIOD = ("valid_from", "valid_until")
_GRANT = (
    "content_object_id",
    "permission_id",
    "granted_at",
    "granted_by_id",
    "reason",
    "namespace_id",
    *_PERIOD,
)


def copied_tables(campaign: Campaign) -> Iterator[tuple[QuerySet, Sequence[str]]]:
    """Yield the rows and the columns of each table that the statements read.

    The copy has the name of the table.
    """
    yield Entity.objects.all(), ("id", "kind", "key", "state", "namespace_id", "application_id")
    yield User.objects.all(), ("id", "username", "is_active", "is_principal", "is_service", "role")
    yield Group.objects.all(), ("id", "name")
    yield Membership.objects.all(), ("id", "user_id", "group_id", *_PERIOD)
    yield UserGrant.objects.all(), ("id", "user_id", *_GRANT)
    yield GroupGrant.objects.all(), ("id", "group_id", *_GRANT)
    yield UsageDay.objects.all(), ("user_id", "entity_id", "day")
    yield UserManagerLink.objects.all(), ("user_id", "manager_id")
    periods = MembershipPeriod.objects.filter(IS_OPEN)
    yield HistoryPrincipal.objects.all(), ("id", "type", "name")
    yield periods, ("user", "group", "from_revision", "until_revision")
    yield (
        JournalLine.objects.filter(revision__in=periods.values("from_revision")),
        ("revision", "at", "actor", "reason"),
    )
    earlier = Q(campaign__state=CampaignState.FINISHED) & ~Q(answer="") | Q(campaign=campaign.previous_id)
    yield (
        ReviewItem.objects.filter(earlier),
        ("id", "campaign_id", "source", "grant_id", "answer", "answered_at"),
    )
    yield Campaign.objects.all(), ("id", "state")


def write_tables(
    filesystem: FileSystem, folder: str, campaign: Campaign, check: Callable[[], None]
) -> dict[str, int]:
    """Write a folder of Parquet files for each table. Return the number of rows of each table.

    check: called between batches of rows; its exceptions end the writing.
    """
    counts = {}
    for rows, columns in copied_tables(campaign):
        name = rows.model._meta.db_table
        files = write_rows(
            filesystem,
            folder,
            name,
            arrow_schema_of(rows.model, columns),
            [rows.order_by().values_list(*columns)],
            check,
        )
        counts[name] = sum(files.values())
    return counts


def arrow_schema_of(model: type[models.Model], columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of columns of a model."""
    return pa.schema([(column, _arrow_type(model._meta.get_field(column))) for column in columns])


def _arrow_type(field) -> pa.DataType:
    while field.is_relation:
        field = field.target_field
    match field:
        case models.BooleanField():
            return pa.bool_()
        case models.DateTimeField():
            return pa.timestamp("us", "UTC")
        case models.DateField():
            return pa.date32()
        case models.IntegerField():
            return pa.int64()
    return pa.string()
