"""Models of the history: the state of the console at every revision, as periods. `grants.history` derives
them from the journal.

A row of a period table contains a state that began with the journal line `from_revision` and ended with
`until_revision`, which is null while the state lasts. Users, groups and addresses have separate ids, because
their rows can be deleted and their names can change.

INVARIANT: these ids are larger than every id of the tables of the present, so an object of the present never
meets a condition on the past, or vice versa.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from entities.address import MAX_KEY_LENGTH
from entities.fields import optional_text
from entities.models import State
from grants.models.validity_columns import ValidityColumns

# below the maximum of auth_group.id, an integer of 32 bits
FIRST_ID = 1_000_000_001
IS_OPEN = Q(until_revision__isnull=True)
_RANGE = ("from_revision", "until_revision")


class HistoryPosition(models.Model):
    """The last journal line that the periods contain, with its hash.

    The table has one row, which is locked by each writer.
    """

    revision = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="")

    class Meta:
        default_permissions = ()


class HistoryPrincipal(models.Model):
    """A user or a group. name: at the last revision that the periods contain; null after another principal
    took it over.
    """

    id = models.BigIntegerField(primary_key=True)
    type = models.CharField(max_length=5)
    name = models.CharField(max_length=150, null=True)  # noqa: DJ001, null does not violate the constraint

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["type", "name"], name="history_principal_name")]


class HistoryAddress(models.Model):
    """An address with those of its containers; a container refers to itself, as in `entities.models.Entity`."""

    id = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=63)
    key = models.CharField(max_length=MAX_KEY_LENGTH)
    parent = models.BigIntegerField(null=True)
    namespace = models.BigIntegerField(null=True)
    application = models.BigIntegerField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="history_address")]


class Period(models.Model):
    """The columns of all periods. since: the time of the line `from_revision`."""

    from_revision = models.BigIntegerField()
    until_revision = models.BigIntegerField(null=True)
    since = models.DateTimeField()

    class Meta:
        abstract = True
        default_permissions = ()


class EntityPeriod(Period):
    """The state of an address; without a period, it is not registered.

    The other columns are those of HistoryAddress.
    """

    entity = models.BigIntegerField()
    kind = models.CharField(max_length=63)
    key = models.CharField(max_length=MAX_KEY_LENGTH)
    parent = models.BigIntegerField(null=True)
    namespace = models.BigIntegerField(null=True)
    application = models.BigIntegerField(null=True)
    state = models.CharField(max_length=7, choices=State.choices)

    class Meta(Period.Meta):
        constraints = [
            models.UniqueConstraint(fields=["entity"], condition=IS_OPEN, name="entity_period_open")
        ]
        indexes = [
            models.Index(fields=["entity", *_RANGE], name="entity_period"),
            models.Index(fields=["kind", "key", *_RANGE], name="entity_period_address"),
            models.Index(
                fields=["namespace", "kind", "state", *_RANGE, "entity"], name="entity_period_namespace"
            ),
            models.Index(fields=["parent", "kind", "key"], name="entity_period_parent"),
            models.Index(
                fields=["application"],
                name="entity_period_application",
                condition=Q(application__isnull=False),
            ),
        ]


class UserPeriod(Period):
    """A period in which a user had this name and status."""

    user = models.BigIntegerField()
    name = models.CharField(max_length=150)
    is_active = models.BooleanField()
    is_principal = models.BooleanField()
    role = models.CharField(max_length=30)
    is_service = models.BooleanField()

    class Meta(Period.Meta):
        constraints = [models.UniqueConstraint(fields=["user"], condition=IS_OPEN, name="user_period_open")]
        indexes = [
            models.Index(fields=["user"], name="user_period"),
            models.Index(fields=["name"], name="user_period_name"),
        ]


class GroupPeriod(Period):
    """A period in which a group existed and had this name."""

    group = models.BigIntegerField()
    name = models.CharField(max_length=150)

    class Meta(Period.Meta):
        constraints = [models.UniqueConstraint(fields=["group"], condition=IS_OPEN, name="group_period_open")]
        indexes = [
            models.Index(fields=["group"], name="group_period"),
            models.Index(fields=["name"], name="group_period_name"),
        ]


class MembershipPeriod(Period, ValidityColumns):
    """The membership of a user in a group."""

    user = models.BigIntegerField()
    group = models.BigIntegerField()

    class Meta(Period.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["user", "group"], condition=IS_OPEN, name="membership_period_open"
            )
        ]
        indexes = [
            models.Index(fields=["user", "group", *_RANGE], name="membership_period_user"),
            models.Index(fields=["group", "user", *_RANGE], name="membership_period_group"),
        ]


class RoleGroupPeriod(Period, ValidityColumns):
    """The membership of a group in a role."""

    group = models.BigIntegerField()
    role = models.BigIntegerField()

    class Meta(Period.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["group", "role"], condition=IS_OPEN, name="role_group_period_open"
            )
        ]
        indexes = [
            models.Index(fields=["group", *_RANGE], name="role_group_period_group"),
            models.Index(fields=["role", *_RANGE], name="role_group_period_role"),
        ]


class RoleMembershipPeriod(Period, ValidityColumns):
    """The membership of a user in a role through a group: a view that joins their periods."""

    user = models.BigIntegerField()
    group = models.BigIntegerField()
    role_group = models.BigIntegerField()

    class Meta(Period.Meta):
        managed = False
        db_table = "grants_rolemembershipperiod"


class GrantPeriod(Period, ValidityColumns):
    """A period in which a grant existed. granted_by: the author of the journal line; null for commands.
    reason: from the line. is_on_pattern: whether `entity` is a pattern. What follows from it is not stored, because it
    depends on the periods of entities (grants.history.past).
    """

    principal_type: ClassVar[str]
    entity = models.BigIntegerField()
    permission = models.IntegerField()
    namespace = models.BigIntegerField(null=True)
    application = models.BigIntegerField(null=True)
    granted_by = models.BigIntegerField(null=True)
    reason = optional_text()
    is_on_pattern = models.BooleanField(db_default=False)

    class Meta(Period.Meta):
        abstract = True


def _one_open_grant(holder: str) -> models.UniqueConstraint:
    return models.UniqueConstraint(
        fields=["entity", holder, "permission"], condition=IS_OPEN, name=f"{holder}_grant_period_open"
    )


def _grant_indexes(holder: str, application_name: str) -> list[models.Index]:
    """Return the indexes of the periods of grants. holder: the type of the principals."""
    prefix = f"{holder}_grant_period"
    return [
        models.Index(fields=["entity", holder, "permission", *_RANGE], name=f"{prefix}_entity"),
        models.Index(
            fields=[holder, "namespace", "permission", "entity", *_RANGE], name=f"{prefix}_{holder}"
        ),
        models.Index(
            fields=[holder, "application"],
            name=f"{prefix}_{application_name}",
            condition=Q(application__isnull=False),
        ),
        models.Index(fields=[holder], name=f"{prefix}_pattern", condition=Q(is_on_pattern=True)),
    ]


class UserGrantPeriod(GrantPeriod):
    """A period in which a grant to a user existed."""

    principal_type = "user"
    user = models.BigIntegerField()

    class Meta(GrantPeriod.Meta):
        constraints = [_one_open_grant("user")]
        indexes = _grant_indexes("user", "application")


class GroupGrantPeriod(GrantPeriod):
    """A period in which a grant to a group existed."""

    principal_type = "group"
    group = models.BigIntegerField()

    class Meta(GrantPeriod.Meta):
        constraints = [_one_open_grant("group")]
        indexes = _grant_indexes("group", "app")


# for each type of principal
GRANT_PERIODS: tuple[type[GrantPeriod], ...] = (UserGrantPeriod, GroupGrantPeriod)


class GenerationPeriod(Period):
    """The active generation."""

    name = models.CharField(max_length=20)

    class Meta(Period.Meta):
        pass


PERIOD_MODELS = (
    EntityPeriod,
    UserPeriod,
    GroupPeriod,
    MembershipPeriod,
    RoleGroupPeriod,
    *GRANT_PERIODS,
    GenerationPeriod,
)
