"""Find the live entities that a plan leaves with fewer than two active administrators.

Besides revocations of ADMIN, memberships that end and users who are deactivated can strand entities.
"""

from dataclasses import dataclass

from django.db import connection
from django.db.models import QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.bulk_rows import chunks, database_time, insert_rows
from grants.history.errors import AsOfError, HistoryNotReady
from grants.history.past import as_of
from grants.models import GroupGrant, Plan, PlanItem, PlanStranding, PlanVerb, User, UserGrant, permission_ids
from grants.querysets import active_principal_sql, principal_sql
from grants.validity import in_force_sql, question_time

_ITEM, _ENTITY = PlanItem._meta.db_table, Entity._meta.db_table
_STRANDING = PlanStranding._meta.db_table
_USER, _MEMBER = User._meta.db_table, User.groups.through._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table
_IS_ACTIVE_PRINCIPAL, _IS_PRINCIPAL = active_principal_sql("u"), principal_sql("u")


@dataclass(frozen=True, slots=True)
class StrandedByPlan:
    """A live entity that a plan leaves with fewer than two active administrators. admin_count: 0 or 1."""

    address: Address
    admin_count: int


def store_strandings(plan: Plan, *, changes_members: bool) -> None:
    """Store the entities that the plan strands. Runs one query, and a statement for every ROWS_PER_STATEMENT
    entities.

    changes_members: whether the plan changes memberships or the status of users; otherwise the query has
    fewer parts.
    """
    with connection.cursor() as cursor:
        cursor.execute(_stranded_sql(plan.pk, permission_ids()[Privilege.ADMIN], changes_members))
        rows = cursor.fetchall()
    for chunk in chunks(rows):
        insert_rows(
            PlanStranding, ["plan_id", "admins_left", "kind", "key"], [(plan.pk, *row) for row in chunk]
        )


def delete_restored_strandings(plan: Plan, revision: int) -> None:
    """Delete the stored entities that have no more administrators in the past, before the plan that `plan`
    undoes, than after it.

    revision: of that past. Deletes nothing if the history does not go back so far.
    Runs the queries of `as_of`, two others, and a statement for each chunk of entities.
    """
    if not plan.strandings.exists():
        return
    try:
        with as_of(revision), connection.cursor() as cursor:
            cursor.execute(_restored_sql(plan.pk, permission_ids()[Privilege.ADMIN]))
            restored = [pk for (pk,) in cursor.fetchall()]
    except (AsOfError, HistoryNotReady):
        return
    for chunk in chunks(restored):
        plan.strandings.filter(pk__in=chunk).delete()


def stranded_entities(plan: Plan, *, max_rows: int, first_row: int = 0) -> list[StrandedByPlan]:
    """Return a page of the entities that the plan strands.

    Entities without an administrator come first. Runs one query.
    """
    rows: QuerySet = plan.strandings.order_by("admins_left", "kind", "key")[first_row : first_row + max_rows]
    return [StrandedByPlan(Address(row.kind, row.key), row.admins_left) for row in rows]


def _stranded_sql(plan_id: int, admin: int, changes_members: bool) -> str:
    """Return the query for (number of remaining administrators, kind, key) of each entity that the plan
    strands.

    At most two administrators of an entity are counted. The plan strands an entity if fewer than two remain,
    and fewer than before.
    """
    sql = _PlanSql(int(plan_id), int(admin), changes_members, f"'{database_time(question_time())}'")
    return f"""
WITH t AS (
  SELECT e.id, e.kind, e.key FROM {_ENTITY} e WHERE e.state = '{State.LIVE}' AND e.id IN ({" UNION ".join(sql.candidates())})
), counted AS (
  SELECT t.kind, t.key, (SELECT count(*) FROM ({" UNION ".join(sql.admins_after())} LIMIT {MIN_ADMINISTRATORS}) a) AS admins,
         (SELECT count(*) FROM ({" UNION ".join(sql.admins_before())} LIMIT {MIN_ADMINISTRATORS}) b) AS admins_before FROM t
)
SELECT admins, kind, key FROM counted WHERE admins < admins_before"""


def _restored_sql(plan_id: int, admin: int) -> str:
    """Return the query, inside `as_of`, for the ids of the stored entities that do not have more
    administrators in the past.
    """
    sql = _PlanSql(int(plan_id), int(admin), changes_members=False, at=f"'{database_time(question_time())}'")
    return f"""
SELECT s.id FROM {_STRANDING} s JOIN {_ENTITY} t ON t.kind = s.kind AND t.key = s.key AND t.state = '{State.LIVE}'
WHERE s.plan_id = {sql.plan_id} AND s.admins_left >= (
  SELECT count(*) FROM ({" UNION ".join(sql.admins_before())} LIMIT {MIN_ADMINISTRATORS}) b)"""


@dataclass(frozen=True, slots=True)
class _PlanSql:
    """The parts of the query for one plan: SELECT statements that the caller combines with UNION.

    at: the time of the question, as a literal. Grants, memberships and items that are not in force then make
    no administrator. Their aliases: `t` the entity, `u` a user, `o` a group, `m` a membership, `g` a grant,
    `i` an item.
    """

    plan_id: int
    admin: int
    changes_members: bool
    at: str

    def candidates(self) -> list[str]:
        """Return the queries for the ids of entities that lose an administrator."""
        items = f"FROM {_ITEM} i JOIN"
        rows = [
            f"SELECT e.id {items} {_ENTITY} e ON e.kind = i.kind AND e.key = i.key WHERE {self._is_item('revoke')} "
            f"AND i.permission_id = {self.admin} AND NOT i.is_so"
        ]
        if not self.changes_members:
            return rows
        group_grants = f"JOIN {_GROUP_GRANT} g ON g.group_id = o.id AND g.permission_id = {self.admin} AND {self._in_force('g')}"
        # a group that keeps two active users strands nothing
        remaining = (
            f"SELECT 1 FROM {_MEMBER} m JOIN {_USER} u ON u.id = m.user_id WHERE m.group_id = o.id "
            f"AND {self._in_force('m')} AND {self._is_member_after()} LIMIT {MIN_ADMINISTRATORS}"
        )
        is_small = f"(SELECT count(*) FROM ({remaining}) r) < {MIN_ADMINISTRATORS}"
        leavers = f"{items} {_USER} l ON l.username = i.principal_name"
        is_leaver = f"{self._is_item('deactivate')} AND NOT i.is_so"
        return [
            *rows,
            f"SELECT g.content_object_id {items} auth_group o ON o.name = i.group_name {group_grants} "
            f"WHERE {self._is_item('leave')} AND NOT i.is_so AND {is_small}",
            f"SELECT g.content_object_id {leavers} JOIN {_USER_GRANT} g ON g.user_id = l.id WHERE {is_leaver} "
            f"AND g.permission_id = {self.admin} AND {self._in_force('g')}",
            f"SELECT g.content_object_id {leavers} JOIN {_MEMBER} k ON k.user_id = l.id AND {self._in_force('k')} "
            f"JOIN auth_group o ON o.id = k.group_id {group_grants} WHERE {is_leaver} AND {is_small}",
        ]

    def admins_before(self) -> list[str]:
        return [
            f"SELECT u.id {self._direct_grants()} AND {_IS_ACTIVE_PRINCIPAL}",
            f"SELECT u.id {self._group_grants()} AND {_IS_ACTIVE_PRINCIPAL}",
        ]

    def admins_after(self) -> list[str]:
        is_revoked = f"EXISTS (SELECT 1 FROM {_ITEM} i WHERE {{}})"
        group_revoked = is_revoked.format(self._is_grant_item("revoke", "group", "o.name"))
        rows = [
            f"SELECT u.id {self._direct_grants()} AND {self._is_active_after()} AND {_IS_PRINCIPAL} "
            f"AND NOT {is_revoked.format(self._is_grant_item('revoke', 'user', 'u.username'))}",
            f"SELECT u.id {self._group_grants()} AND {self._is_member_after()} AND NOT {group_revoked}",
            # a user becomes a principal with the grant
            f"SELECT u.id FROM {_ITEM} i JOIN {_USER} u ON {self._is_grant_item('grant', 'user', 'u.username')} "
            f"WHERE {self._is_active_after()}",
            f"SELECT u.id FROM {_ITEM} i JOIN auth_group o ON {self._is_grant_item('grant', 'group', 'o.name')} "
            f"JOIN {_MEMBER} m ON m.group_id = o.id AND {self._in_force('m')} "
            f"JOIN {_USER} u ON u.id = m.user_id WHERE {self._is_member_after()}",
        ]
        if not self.changes_members:
            return rows
        is_granted = (
            f"EXISTS (SELECT 1 FROM {_ITEM} i WHERE {self._is_grant_item('grant', 'group', 'o.name')})"
        )
        keeps = (
            f"EXISTS (SELECT 1 FROM {_GROUP_GRANT} g WHERE g.group_id = o.id AND g.content_object_id = t.id "
            f"AND g.permission_id = {self.admin} AND {self._in_force('g')}) AND NOT {group_revoked}"
        )
        return [
            *rows,
            f"SELECT u.id FROM {_ITEM} j JOIN {_USER} u ON u.username = j.principal_name "
            f"JOIN auth_group o ON o.name = j.group_name WHERE {self._is_item('join', alias='j')} "
            f"AND {self._in_force('j')} AND {self._is_active_after()} AND ({is_granted} OR {keeps})",
        ]

    def _direct_grants(self) -> str:
        return (
            f"FROM {_USER_GRANT} g JOIN {_USER} u ON u.id = g.user_id "
            f"WHERE g.content_object_id = t.id AND g.permission_id = {self.admin} AND {self._in_force('g')}"
        )

    def _group_grants(self) -> str:
        return (
            f"FROM {_GROUP_GRANT} g JOIN auth_group o ON o.id = g.group_id JOIN {_MEMBER} m ON m.group_id = g.group_id "
            f"JOIN {_USER} u ON u.id = m.user_id WHERE g.content_object_id = t.id AND g.permission_id = {self.admin} "
            f"AND {self._in_force('g')} AND {self._in_force('m')}"
        )

    def _in_force(self, alias: str) -> str:
        return in_force_sql(alias, self.at)

    def _is_item(self, verb: str, alias: str = "i") -> str:
        return f"{alias}.plan_id = {self.plan_id} AND {alias}.verb = '{PlanVerb(verb)}'"

    def _is_grant_item(self, verb: str, principal_type: str, name: str) -> str:
        """Return the condition that item `i` grants or revokes ADMIN on the entity `t` for this principal."""
        return (
            f"{self._is_item(verb)} AND {self._in_force('i')} AND i.kind = t.kind AND i.key = t.key "
            f"AND i.permission_id = {self.admin} AND i.principal_type = '{principal_type}' AND i.principal_name = {name}"
        )

    def _is_active_after(self) -> str:
        """Return the condition that user `u` is active after the plan."""
        if not self.changes_members:
            return "u.is_active"
        return f"(u.is_active AND NOT {self._user_item('deactivate')} OR {self._user_item('activate')})"

    def _is_member_after(self) -> str:
        """Return the condition that membership `m` of `u` in `o` counts after the plan."""
        if not self.changes_members:
            return _IS_ACTIVE_PRINCIPAL
        return (
            f"{_IS_PRINCIPAL} AND {self._is_active_after()} "
            f"AND NOT {self._user_item('leave', 'AND x.group_name = o.name')}"
        )

    def _user_item(self, verb: str, condition: str = "") -> str:
        return (
            f"EXISTS (SELECT 1 FROM {_ITEM} x WHERE {self._is_item(verb, alias='x')} AND x.principal_type = 'user' "
            f"AND x.principal_name = u.username {condition})"
        )
