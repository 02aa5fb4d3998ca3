"""Build the parts of the statement for items that contain their evidence. Aliases: see
`grants.reviews.preparation_sql`.

The queries by name:

- `used`: the last day of use of each reviewed row.
- `two`, `sizes`: of each group, the first two active members, and the number of active members.
- `sources`: who has ADMIN on an entity, directly or through a group. `few`: the entities with so few
  administrators that one change can strand them. `losses`: the reviewed rows of ADMIN, with the
  administrators before and after a revocation.
- `holding`, `peers`, `best`: how many members of each group hold a privilege, the same for the groups of the
  user of a reviewed row, and the group with the highest share.
- `redundant`: a group that gives the user the same privilege.
- `pairs`, `left_on`: for memberships, the entities on which the group has ADMIN, with the administrators
before and after.
- `grant_counts`: for memberships, the number of grants of the group.
"""

from collections.abc import Sequence

from entities.models import State
from entities.vocabulary import MIN_ADMINISTRATORS
from grants.models.reviews import ItemSource
from grants.querysets import active_principal_sql
from grants.reviews.preparation_rules import (
    ENTITY_TABLE,
    GRANT_TABLES,
    GROUP_GRANT_TABLE,
    GROUP_TABLE,
    KNOWN_TABLE,
    LINE_TABLE,
    MEMBER_TABLE,
    PERIOD_TABLE,
    USAGE_TABLE,
    USER_GRANT_TABLE,
    USER_TABLE,
    PreparationRules,
)
from grants.validity import in_force_sql

_IS_ACTIVE = active_principal_sql("u")


def last_use(source: ItemSource) -> str:
    """Return the query for the last day of use of each row of the batch."""
    last = f"SELECT b.id, max(d.day) AS day FROM b JOIN {USAGE_TABLE} d"
    if source == ItemSource.USER:
        return f"{last} ON d.user_id = b.principal_id AND d.entity_id = b.entity_id GROUP BY b.id"
    if source == ItemSource.GROUP:
        return (
            f"{last} ON d.entity_id = b.entity_id JOIN {MEMBER_TABLE} dm ON dm.user_id = d.user_id "
            f"AND dm.group_id = b.principal_id GROUP BY b.id"
        )
    return (
        f"{last} ON d.user_id = b.principal_id JOIN {GROUP_GRANT_TABLE} dg ON dg.group_id = b.group_id "
        f"AND dg.content_object_id = d.entity_id GROUP BY b.id"
    )


def _active_members(at: str) -> str:
    """Return the part of a query after FROM for the memberships `m` that count at this time."""
    return f"{MEMBER_TABLE} m JOIN {USER_TABLE} u ON u.id = m.user_id AND {_IS_ACTIVE} WHERE {in_force_sql('m', at)}"


def _group_ctes(at: str) -> dict[str, str]:
    """Return the queries for the number of active members of each group, and for the first two of them.

    If fewer than two administrators remain, the first two members of each group are enough to find all of
    them.
    """
    members = _active_members(at)
    return {
        "two": f"SELECT r.group_id, r.user_id FROM (SELECT m.group_id, m.user_id, row_number() OVER (PARTITION BY m.group_id "
        f"ORDER BY m.user_id) AS place FROM {members}) r WHERE r.place <= {MIN_ADMINISTRATORS}",
        "sizes": f"SELECT m.group_id, count(*) AS size FROM {members} GROUP BY m.group_id",
    }


def _admin_sources(rules: PreparationRules, entities: str) -> str:
    """Return the query for the sources of ADMIN on the entities of a query: type, grant, entity, user and
    group.
    """
    conditions = f"g.permission_id = {rules.admin} AND g.content_object_id IN ({entities}) AND {in_force_sql('g', rules.at)}"
    return (
        f"SELECT 0 AS type, g.id AS grant_id, g.content_object_id AS entity_id, g.user_id, 0 AS group_id "
        f"FROM {USER_GRANT_TABLE} g JOIN {USER_TABLE} u ON u.id = g.user_id AND {_IS_ACTIVE} WHERE {conditions} UNION ALL "
        f"SELECT 1, g.id, g.content_object_id, t.user_id, t.group_id FROM {GROUP_GRANT_TABLE} g JOIN two t "
        f"ON t.group_id = g.group_id WHERE {conditions}"
    )


class GrantParts:
    """The parts of the statement for grants to users, or to groups."""

    def __init__(self, rules: PreparationRules, source: ItemSource):
        self.rules, self.source, self.is_user = rules, source, source == ItemSource.USER

    def rows(self, scope: Sequence[str]) -> str:
        table, principal = GRANT_TABLES[self.source]
        name, join = (
            ("pu.username", f"JOIN {USER_TABLE} pu ON pu.id = g.user_id")
            if self.is_user
            else ("po.name", f"JOIN {GROUP_TABLE} po ON po.id = g.group_id")
        )
        is_active = active_principal_sql("pu") if self.is_user else "FALSE"
        counts = f"{is_active} AND {in_force_sql('g', self.rules.at)}"
        conditions = ["g.content_object_id > %s", "g.content_object_id <= %s", *scope]
        return (
            f"SELECT g.id, g.{principal} AS principal_id, {name} AS name, g.permission_id, g.granted_at, g.reason, "
            f"g.valid_until, CASE WHEN {is_active} THEN 1 ELSE 0 END AS is_active, CASE WHEN {counts} THEN 1 ELSE 0 END "
            f"AS counts, coalesce(gu.username, '') AS granted_by, e.id AS entity_id, e.kind, e.key, e.state, "
            f"coalesce(n.key, '') AS namespace FROM {table} g {join} JOIN {ENTITY_TABLE} e ON e.id = g.content_object_id "
            f"LEFT JOIN {ENTITY_TABLE} n ON n.id = e.namespace_id LEFT JOIN {USER_TABLE} gu ON gu.id = g.granted_by_id "
            f"WHERE {' AND '.join(conditions)}"
        )

    def ctes(self) -> dict[str, str]:
        type_, at = 0 if self.is_user else 1, self.rules.at
        # more administrators than these remain, whichever grant ends
        limit = MIN_ADMINISTRATORS + (0 if self.is_user else MIN_ADMINISTRATORS) + 1
        ctes = {
            **_group_ctes(self.rules.at),
            "sources": _admin_sources(self.rules, "SELECT entity_id FROM b"),
            "few": f"SELECT s.entity_id FROM sources s GROUP BY s.entity_id HAVING count(DISTINCT s.user_id) <= {limit}",
            "losses": f"SELECT b.id, count(DISTINCT s.user_id) AS before_count, count(DISTINCT CASE WHEN s.type <> {type_} OR "
            f"s.grant_id <> b.id THEN s.user_id END) AS admins_left FROM b JOIN few ON few.entity_id = b.entity_id "
            f"JOIN sources s ON s.entity_id = b.entity_id WHERE b.permission_id = {self.rules.admin} "
            f"AND b.state = '{State.LIVE.value}' GROUP BY b.id",
        }
        if not self.is_user:
            return ctes
        return ctes | {
            "holding": f"SELECT m.group_id, g.content_object_id AS entity_id, g.permission_id, count(*) AS holders "
            f"FROM {USER_GRANT_TABLE} g JOIN {USER_TABLE} u ON u.id = g.user_id AND {_IS_ACTIVE} "
            f"JOIN {MEMBER_TABLE} m ON m.user_id = g.user_id AND {in_force_sql('m', at)} WHERE g.content_object_id IN "
            f"(SELECT entity_id FROM b) AND {in_force_sql('g', at)} GROUP BY 1, 2, 3",
            # in each group of the user: the other active members, and those of them who hold the same
            "peers": f"SELECT b.id, m.group_id, z.size - b.is_active AS peers, coalesce(h.holders, b.counts) - b.counts "
            f"AS peer_holders FROM b JOIN {MEMBER_TABLE} m ON m.user_id = b.principal_id AND {in_force_sql('m', at)} "
            f"JOIN sizes z ON z.group_id = m.group_id LEFT JOIN holding h ON h.group_id = m.group_id "
            f"AND h.entity_id = b.entity_id AND h.permission_id = b.permission_id WHERE z.size > b.is_active",
            # the first of the user's groups that gives the same
            "redundant": f"SELECT b.id, min(rm.group_id) AS group_id FROM b "
            f"JOIN {MEMBER_TABLE} rm ON rm.user_id = b.principal_id AND {in_force_sql('rm', at)} "
            f"JOIN {GROUP_GRANT_TABLE} rg ON rg.group_id = rm.group_id "
            f"AND rg.content_object_id = b.entity_id AND rg.permission_id = b.permission_id "
            f"AND {in_force_sql('rg', at)} GROUP BY b.id",
            "best": "SELECT r.* FROM (SELECT id, group_id, peers, peer_holders, row_number() OVER (PARTITION BY id "
            "ORDER BY peer_holders * 1.0 / peers DESC, peers DESC, group_id) AS place FROM peers) r WHERE r.place = 1",
        }

    def joins(self) -> list[str]:
        joins = ["LEFT JOIN losses l ON l.id = b.id"]
        if self.is_user:
            return [
                *joins,
                f"LEFT JOIN best k ON k.id = b.id LEFT JOIN {GROUP_TABLE} ko ON ko.id = k.group_id",
                f"LEFT JOIN redundant rt ON rt.id = b.id LEFT JOIN {GROUP_TABLE} ro ON ro.id = rt.group_id",
            ]
        return [*joins, "LEFT JOIN sizes z ON z.group_id = b.principal_id"]

    def values(self) -> dict[str, str]:
        values = {
            "principal_id": "b.principal_id",
            "principal_name": "b.name",
            "group_name": "''",
            "entity_id": "b.entity_id",
            "kind": "b.kind",
            "key": "b.key",
            "namespace": "b.namespace",
            "permission_id": "b.permission_id",
            "entity_state": "b.state",
            "granted_at": "b.granted_at",
            "granted_by": "b.granted_by",
            "reason": "b.reason",
            "valid_until": "b.valid_until",
            "redundant_through": "coalesce(ro.name, '')" if self.is_user else "''",
            "admins_left": _admin_count_sql("l"),
            "last_used_on": "used.day",
        }
        if self.is_user:
            return values | {
                "peers": "coalesce(k.peers, 0)",
                "peer_holders": "coalesce(k.peer_holders, 0)",
                "peer_group": "coalesce(ko.name, '')",
                "reach": "0",
            }
        return values | {
            "peers": "0",
            "peer_holders": "0",
            "peer_group": "''",
            "reach": "coalesce(z.size, 0)",
        }

    def order(self) -> str:
        return "b.entity_id, b.principal_id, b.permission_id"


def _admin_count_sql(alias: str) -> str:
    return (
        f"CASE WHEN {alias}.admins_left < {MIN_ADMINISTRATORS} AND {alias}.admins_left < {alias}.before_count "
        f"THEN {alias}.admins_left END"
    )


class MembershipParts:
    """The parts of the statement for memberships. Only the history knows who added a member, and when."""

    def __init__(self, rules: PreparationRules):
        self.rules = rules

    def rows(self, scope: Sequence[str]) -> str:
        conditions = ["g.id > %s", "g.id <= %s", *scope]
        return (
            f"SELECT g.id, g.user_id AS principal_id, u.username AS name, g.group_id, o.name AS group_name, "
            f"CASE WHEN {_IS_ACTIVE} THEN 1 ELSE 0 END AS is_active, i.at AS granted_at, i.actor, i.reason, g.valid_until "
            f"FROM {MEMBER_TABLE} g JOIN {USER_TABLE} u ON u.id = g.user_id JOIN {GROUP_TABLE} o ON o.id = g.group_id "
            f"LEFT JOIN {KNOWN_TABLE} hu ON hu.type = 'user' AND hu.name = u.username "
            f"LEFT JOIN {KNOWN_TABLE} hg ON hg.type = 'group' AND hg.name = o.name "
            f'LEFT JOIN {PERIOD_TABLE} mp ON mp."user" = hu.id AND mp."group" = hg.id AND mp.until_revision IS NULL '
            f"LEFT JOIN {LINE_TABLE} i ON i.revision = mp.from_revision WHERE {' AND '.join(conditions)}"
        )

    def ctes(self) -> dict[str, str]:
        admin = self.rules.admin
        return {
            **_group_ctes(self.rules.at),
            # the entities for which a membership can be decisive: its group has at most two active members
            "pairs": f"SELECT b.id, b.group_id, b.principal_id, g.content_object_id AS entity_id FROM b JOIN sizes z "
            f"ON z.group_id = b.group_id AND z.size <= {MIN_ADMINISTRATORS} JOIN {GROUP_GRANT_TABLE} g "
            f"ON g.group_id = b.group_id AND g.permission_id = {admin} "
            f"JOIN {ENTITY_TABLE} e ON e.id = g.content_object_id AND e.state = '{State.LIVE.value}' "
            f"WHERE b.is_active = 1",
            "sources": _admin_sources(self.rules, "SELECT entity_id FROM pairs"),
            "few": f"SELECT s.entity_id FROM sources s GROUP BY s.entity_id "
            f"HAVING count(DISTINCT s.user_id) <= {MIN_ADMINISTRATORS}",
            "left_on": "SELECT p.id, p.entity_id, count(DISTINCT s.user_id) AS before_count, count(DISTINCT CASE WHEN s.type = 0 "
            "OR s.group_id <> p.group_id OR s.user_id <> p.principal_id THEN s.user_id END) AS admins_left "
            "FROM pairs p JOIN few ON few.entity_id = p.entity_id JOIN sources s ON s.entity_id = p.entity_id "
            "GROUP BY p.id, p.entity_id",
            "losses": f"SELECT l.id, min({_admin_count_sql('l')}) AS admins_left FROM left_on l GROUP BY l.id",
            "grant_counts": f"SELECT g.group_id, count(*) AS size FROM {GROUP_GRANT_TABLE} g "
            f"WHERE g.group_id IN (SELECT group_id FROM b) GROUP BY g.group_id",
        }

    def joins(self) -> list[str]:
        return ["LEFT JOIN losses l ON l.id = b.id LEFT JOIN grant_counts gc ON gc.group_id = b.group_id"]

    def values(self) -> dict[str, str]:
        empty = dict.fromkeys(
            ("kind", "key", "namespace", "entity_state", "redundant_through", "peer_group"), "''"
        )
        return empty | {
            "principal_id": "b.principal_id",
            "principal_name": "b.name",
            "group_name": "b.group_name",
            "entity_id": "NULL",
            "permission_id": "NULL",
            "granted_at": "b.granted_at",
            "granted_by": "coalesce(b.actor, '')",
            "reason": "coalesce(b.reason, '')",
            "valid_until": "b.valid_until",
            "admins_left": "l.admins_left",
            "peers": "0",
            "peer_holders": "0",
            "reach": "coalesce(gc.size, 0)",
            "last_used_on": "used.day",
        }

    def order(self) -> str:
        return "b.group_id, b.principal_id"
