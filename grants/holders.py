"""Whose grants count for a subject: a user's own and those of its groups; a group's own."""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import QuerySet

from grants.models import GroupGrant, User, UserGrant
from grants.policies.question import is_storable

LONGEST_LIST_OF_GROUPS = 500


@dataclass(frozen=True, slots=True)
class GrantTable:
    """The rows of one table of grants that count. relation: what an entity calls the table. who: the condition on a row."""

    model: type[UserGrant | GroupGrant]
    relation: str
    who: tuple[tuple[str, object], ...]

    def rows(self, **where) -> QuerySet:
        return self.model.objects.filter(**dict(self.who), **where)

    def joined(self, **where) -> dict:
        """The same, as the keywords of one `filter` of entities."""
        return {f"{self.relation}__{name}": value for name, value in (*self.who, *where.items())}


def tables_of_user(user: User) -> tuple[GrantTable, ...]:
    """For an active user. No query."""
    return _table_of_user(user.pk), GrantTable(GroupGrant, "group_grants", (("group__user", user.pk),))


def tables_of(subject_type: str, name: str) -> tuple[GrantTable, ...] | None:
    """None for an unknown or inactive subject. One query."""
    if not is_storable(name):
        return None
    if subject_type == "group":
        group_ids = Group.objects.filter(name=name).values_list("pk", flat=True)
        return tuple(_table_of_groups(list(group_ids))) or None
    users = User.objects.filter(username=name, is_active=True, is_principal=True)
    rows = list(users.values_list("pk", "groups"))
    if not rows:
        return None
    user_id, group_ids = rows[0][0], [group_id for _, group_id in rows if group_id is not None]
    if len(group_ids) > LONGEST_LIST_OF_GROUPS:
        return _table_of_user(user_id), GrantTable(GroupGrant, "group_grants", (("group__user", user_id),))
    return _table_of_user(user_id), *_table_of_groups(group_ids)


def _table_of_user(user_id: int) -> GrantTable:
    return GrantTable(UserGrant, "user_grants", (("user_id", user_id),))


def _table_of_groups(group_ids: list[int]):
    # the database plans better for numbers than for a join
    if group_ids:
        yield GrantTable(GroupGrant, "group_grants", (("group_id__in", tuple(group_ids)),))
