"""The statement that writes the items of a campaign with their evidence: one INSERT for each batch of reviewed
rows.

A batch is a range of entities, or of memberships. The cost of the statement is proportional to the grants in
its range: evidence that compares grants (other administrators, peers) is computed with joins in the range,
not with a query for each grant.

Aliases: `g` a row of the batch, `b` the same with the names of its principal and entity, `s` a source of
ADMIN, `t` one of the first two active members of a group. The queries by name:

- `used`: the last day of use of each reviewed row.
- `two`, `sizes`: of each group, the first two active members, and the number of active members.
- `sources`: who has ADMIN on an entity, directly or through a group. `few`: the entities with so few
  administrators that one change can strand them. `losses`: the reviewed rows of ADMIN, with the
  administrators before and after a revocation.
- `holding`, `peers`, `best`: how many members of each group hold a privilege, the same for the groups of the
  user of a reviewed row, and the group with the highest share.
- `redundant`: a group that gives the user the same privilege.
- `changed`: the groups and roles that lose active members with a reviewed membership, if that matters. `remaining`: the
  active members that they keep, at least two if there are. `ways`, `kept`: of each role, how each active member is in it, and
  those of them that are enough to find `remaining`. `pairs`, `left_on`: the entities on which they have ADMIN, with the
  administrators before and after.
- `in_group`: of each membership of a group in a role, the active members of the group, and those who are in the role directly.
- `given`, `grant_counts`: for memberships, the group with its roles, and the number of their grants.
- `last_answers`: the last answered item of the same row in a finished campaign.
"""

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import QuerySet

from entities.address import instance_address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.bulk_rows import database_time
from grants.models import (
    GroupGrant,
    JournalLine,
    Membership,
    NamespaceSteward,
    RoleGroup,
    RoleMembership,
    User,
    UserGrant,
    permission_ids,
)
from grants.models.history import HistoryPrincipal, MembershipPeriod, RoleGroupPeriod
from grants.models.reviews import (
    Campaign,
    CampaignState,
    ItemSource,
    ReviewerRule,
    ReviewItem,
    UsageDay,
    UserManagerLink,
)
from grants.querysets import active_principal_sql
from grants.reviews.reviewers import reviewers_of_group
from grants.roles.capabilities import DELEGATE_ROLES
from grants.validity import in_force_sql

ITEM_TABLE, CAMPAIGN_TABLE = ReviewItem._meta.db_table, Campaign._meta.db_table
ENTITY_TABLE, USER_TABLE, MEMBER_TABLE = Entity._meta.db_table, User._meta.db_table, Membership._meta.db_table
GROUP_TABLE, LINK_TABLE, USAGE_TABLE = (
    Group._meta.db_table,
    UserManagerLink._meta.db_table,
    UsageDay._meta.db_table,
)
ROLE_MEMBER_TABLE, ROLE_GROUP_TABLE = RoleMembership._meta.db_table, RoleGroup._meta.db_table
USER_GRANT_TABLE, GROUP_GRANT_TABLE = UserGrant._meta.db_table, GroupGrant._meta.db_table
KNOWN_TABLE, LINE_TABLE, STEWARD_TABLE = (
    model._meta.db_table for model in (HistoryPrincipal, JournalLine, NamespaceSteward)
)


@frozen
class PreparationRules:
    """The options of a campaign with primary keys instead of names. The values are written into the SQL.

    reviewers, escalation: primary keys of users; empty means administrators.
    at: the time of the review, as an SQL literal. Evidence consists of the grants and memberships in force at
    this time.
    delegation: whether holders of ADMIN on containers review what is inside. instance: the primary key of its
    row, or 0.
    """

    campaign: int
    previous: int | None
    admin: int
    rule: ReviewerRule
    at: str
    reviewers: Sequence[int] = ()
    escalation: Sequence[int] = ()
    delegation: bool = False
    instance: int = 0


def preparation_rules(campaign: Campaign, at: datetime) -> PreparationRules:
    """Return the rules of a campaign, with the primary keys of the names in it. at: the time of the review.

    Raise ReviewError if a name does not exist.
    """
    instance = entity_at(instance_address())
    return PreparationRules(
        campaign=campaign.pk,
        previous=campaign.previous_id,
        admin=permission_ids()[Privilege.ADMIN],
        rule=ReviewerRule(campaign.reviewer_rule),
        at=f"'{database_time(at)}'",
        reviewers=reviewers_of_group(campaign.reviewer_group, field="reviewer_group")
        if campaign.reviewer_group
        else (),
        escalation=reviewers_of_group(campaign.escalation_group, field="escalation_group")
        if campaign.escalation_group
        else (),
        delegation=settings.DELEGATION,
        instance=instance.pk if instance else 0,
    )


MAX_CANDIDATES = 4


class Assignment:
    """The reviewer of an item: from the rule, or else from the escalation. No user reviews an item about its
    own access.

    Among holders of ADMIN, those on the entity come first, and with delegation those on its nearest
    container. Data stewards of the namespace take turns by principal; memberships have no namespace.
    """

    def __init__(self, rules: PreparationRules, source: ItemSource):
        self.rules, self.source = rules, source
        is_grant = not source.is_membership
        self.is_by_holders = rules.rule == ReviewerRule.ADMIN_HOLDERS and is_grant
        self.is_by_stewards = rules.rule == ReviewerRule.STEWARDS and is_grant

    def ctes(self) -> dict[str, str]:
        ctes = {"escalation": _places_sql(self.rules.escalation)} if self.rules.escalation else {}
        if self.rules.rule == ReviewerRule.GROUP and self.rules.reviewers:
            ctes["reviewers"] = _places_sql(self.rules.reviewers)
        if self.is_by_stewards:
            ctes |= {
                "stewards": _stewards(self.rules.at),
                "turns": f"SELECT b.id, c.user_id, row_number() OVER (PARTITION BY b.id "
                f"ORDER BY (c.place + b.principal_id) %% c.size) AS turn FROM b JOIN stewards c "
                f"ON c.namespace = b.namespace WHERE NOT {self._concerns('c.user_id')}",
            }
        if not self.is_by_holders:
            return ctes
        ctes |= {
            "candidates": _candidates(self.rules, "SELECT entity_id FROM b"),
            "holders": f"SELECT b.id, min(c.place) AS place FROM b JOIN candidates c ON c.entity_id = b.entity_id "
            f"WHERE NOT {self._concerns('c.user_id')} GROUP BY b.id",
        }
        return ctes | self._delegate_ctes() if self.rules.delegation else ctes

    def _delegate_ctes(self) -> dict[str, str]:
        """Return the queries for the reviewers of items that no holder of ADMIN on the entity can review:
        delegates.

        They hold ADMIN on a live container of the entity, the nearest one on which there is another holder.
        """
        containers = " UNION ALL ".join(
            f"SELECT e.id AS entity_id, {container} AS container_id, {distance} AS distance FROM {ENTITY_TABLE} e "
            f"WHERE e.id IN (SELECT entity_id FROM unreviewed)"
            for distance, container in enumerate(
                ("e.application_id", "e.namespace_id", str(self.rules.instance))
            )
        )
        return {
            "unreviewed": "SELECT b.id, b.entity_id, b.principal_id FROM b LEFT JOIN holders h ON h.id = b.id WHERE h.id IS NULL",
            # a container refers to itself
            "containers": f"SELECT x.entity_id, x.container_id, x.distance FROM ({containers}) x JOIN {ENTITY_TABLE} k "
            f"ON k.id = x.container_id AND k.state = '{State.LIVE.value}' WHERE x.container_id <> x.entity_id",
            "delegates": _candidates(self.rules, "SELECT container_id FROM containers", are_delegates=True),
            "above": f"SELECT r.id, r.user_id FROM (SELECT b.id, c.user_id, row_number() OVER (PARTITION BY b.id "
            f"ORDER BY x.distance, c.place) AS place FROM unreviewed b JOIN containers x ON x.entity_id = b.entity_id "
            f"JOIN delegates c ON c.entity_id = x.container_id WHERE NOT {self._concerns('c.user_id')}) r "
            f"WHERE r.place = 1",
        }

    def joins(self) -> str:
        joins = ""
        if self.is_by_holders:
            joins += (
                "LEFT JOIN holders h ON h.id = b.id LEFT JOIN candidates hc ON hc.entity_id = b.entity_id "
                "AND hc.place = h.place "
            )
            joins += "LEFT JOIN above a ON a.id = b.id " if self.rules.delegation else ""
        if self.is_by_stewards:
            joins += "LEFT JOIN turns st ON st.id = b.id AND st.turn = 1 "
        if self.rules.rule == ReviewerRule.MANAGER and not self.source.is_of_group:
            joins += (
                f"LEFT JOIN {LINK_TABLE} ml ON ml.user_id = b.principal_id "
                f"LEFT JOIN {USER_TABLE} mu ON mu.id = ml.manager_id AND mu.is_active AND NOT mu.is_service "
            )
        if self.rules.rule == ReviewerRule.GROUP and self.rules.reviewers:
            joins += self._two_of("reviewers", len(self.rules.reviewers))
        if self.rules.escalation:
            joins += self._two_of("escalation", len(self.rules.escalation))
        return joins

    def values(self) -> dict[str, str]:
        by_rule = self._by_rule()
        escalated = self._first_of("escalation") if self.rules.escalation else "NULL"
        if by_rule is None:
            return {
                "reviewer_id": escalated if self.rules.rule != ReviewerRule.ADMINISTRATORS else "NULL",
                "escalated": "FALSE" if self.rules.rule == ReviewerRule.ADMINISTRATORS else "TRUE",
            }
        return {"reviewer_id": f"coalesce({by_rule}, {escalated})", "escalated": f"({by_rule}) IS NULL"}

    def _by_rule(self) -> str | None:
        """Return the SQL of the reviewer from the rule; None if the rule has no reviewer for this source."""
        if self.is_by_holders:
            return "coalesce(hc.user_id, a.user_id)" if self.rules.delegation else "hc.user_id"
        if self.is_by_stewards:
            return "st.user_id"
        if self.rules.rule == ReviewerRule.MANAGER and not self.source.is_of_group:
            return "mu.id"
        if self.rules.rule == ReviewerRule.GROUP and self.rules.reviewers:
            return self._first_of("reviewers")
        return None

    def _two_of(self, name: str, count: int) -> str:
        """Return the joins of two users, `NAME1` and `NAME2`. The key of the principal selects the first; the
        second is the next.

        The second one reviews the item if it is about the access of the first one.
        """
        joins = ""
        for alias, shift in ((f"{name}1", 0), (f"{name}2", 1)):
            joins += f"LEFT JOIN {name} {alias} ON {alias}.place = (b.principal_id + {shift}) %% {count} "
            if self.source.is_of_group:
                joins += (
                    f"LEFT JOIN {_members()} {alias}_own ON {alias}_own.group_id = b.principal_id "
                    f"AND {alias}_own.user_id = {alias}.user_id "
                )
        return joins

    def _first_of(self, name: str) -> str:
        first, second = f"{name}1", f"{name}2"
        return (
            f"CASE WHEN NOT {self._concerns_member(first)} THEN {first}.user_id "
            f"WHEN NOT {self._concerns_member(second)} THEN {second}.user_id END"
        )

    def _concerns_member(self, alias: str) -> str:
        """Return the condition that the item is about the access of the joined user."""
        if not self.source.is_of_group:
            return f"({alias}.user_id = b.principal_id)"
        return f"({alias}_own.user_id IS NOT NULL)"

    def _concerns(self, user: str) -> str:
        """Return the condition that the item is about the access of this user, for statements without the
        joins of `_two_of`.
        """
        if not self.source.is_of_group:
            return f"({user} = b.principal_id)"
        return (
            f"EXISTS (SELECT 1 FROM {_members()} cm WHERE cm.group_id = b.principal_id "
            f"AND cm.user_id = {user})"
        )


def _candidates(rules: PreparationRules, entities: str, *, are_delegates: bool = False) -> str:
    """Return the query for the first MAX_CANDIDATES people who hold ADMIN on each of the entities of a query.

    Direct holders are first, then the first members of groups, each by their key.
    """
    is_person = f"{active_principal_sql('u')} AND NOT u.is_service"
    if are_delegates:
        is_person += f" AND u.role IN ({', '.join(repr(role.value) for role in DELEGATE_ROLES)})"
    is_admin = (
        f"g.permission_id = {rules.admin} AND g.content_object_id IN ({entities}) "
        f"AND {in_force_sql('g', rules.at)}"
    )
    members = (
        f"SELECT r.group_id, r.user_id FROM (SELECT m.group_id, m.user_id, row_number() OVER (PARTITION BY m.group_id "
        f"ORDER BY m.user_id) AS place FROM {_members(rules.at)} m JOIN {USER_TABLE} u ON u.id = m.user_id AND {is_person} "
        f"WHERE m.group_id IN (SELECT g.group_id FROM {GROUP_GRANT_TABLE} g "
        f"WHERE {is_admin})) r WHERE r.place <= {MAX_CANDIDATES}"
    )
    holders = (
        f"SELECT g.content_object_id AS entity_id, g.user_id, 0 AS type FROM {USER_GRANT_TABLE} g JOIN {USER_TABLE} u "
        f"ON u.id = g.user_id AND {is_person} WHERE {is_admin} UNION ALL SELECT g.content_object_id, t.user_id, 1 "
        f"FROM {GROUP_GRANT_TABLE} g JOIN ({members}) t ON t.group_id = g.group_id WHERE {is_admin}"
    )
    return (
        f"SELECT r.* FROM (SELECT s.entity_id, s.user_id, row_number() OVER (PARTITION BY s.entity_id "
        f"ORDER BY min(s.type), s.user_id) AS place FROM ({holders}) s GROUP BY s.entity_id, s.user_id) r "
        f"WHERE r.place <= {MAX_CANDIDATES}"
    )


def _stewards(at: str) -> str:
    """Return the query for the first MAX_CANDIDATES people who are data stewards of each namespace, numbered from 1 in
    `place`. size: how many there are.
    """
    is_person = "u.is_active AND NOT u.is_service"
    people = (
        f"SELECT s.namespace, u.id AS user_id FROM {STEWARD_TABLE} s JOIN {USER_TABLE} u ON u.id = s.user_id "
        f"AND {is_person} UNION SELECT s.namespace, u.id FROM {STEWARD_TABLE} s JOIN {_members(at)} m "
        f"ON m.group_id = s.group_id JOIN {USER_TABLE} u ON u.id = m.user_id AND {is_person}"
    )
    first = (
        f"SELECT p.namespace, p.user_id, row_number() OVER (PARTITION BY p.namespace ORDER BY p.user_id) AS place "
        f"FROM ({people}) p WHERE p.namespace IN (SELECT namespace FROM b)"
    )
    return (
        f"SELECT f.*, count(*) OVER (PARTITION BY f.namespace) AS size FROM ({first}) f "
        f"WHERE f.place <= {MAX_CANDIDATES}"
    )


def _places_sql(users: Sequence[int]) -> str:
    """Return a query for these users, numbered from 0 in `place`."""
    return " UNION ALL ".join(
        f"SELECT {place} AS place, {int(user)} AS user_id" for place, user in enumerate(users)
    )


# the columns of an item with the SQL of values that have no evidence
_NO_EVIDENCE = {
    "group_name": "''",
    "entity_id": "NULL",
    "kind": "''",
    "key": "''",
    "namespace": "''",
    "permission_id": "NULL",
    "entity_state": "''",
    "redundant_through": "''",
    "peers": "0",
    "peer_holders": "0",
    "peer_group": "''",
    "reach": "0",
    "answer": "''",
    "comment": "''",
    "answered_by": "''",
}


def insert_items_sql(rules: PreparationRules, source: ItemSource, batch: QuerySet) -> tuple[str, list]:
    """Return the INSERT for a batch of reviewed rows, with its parameters."""
    evidence, assignment, rows, parameters = _parts(rules, source, batch)
    queries = {
        "b": rows,
        **evidence.queries(),
        "used": _last_use(source),
        "last_answers": f"SELECT b.id, max(q.id) AS item_id FROM b JOIN {ITEM_TABLE} q "
        f"ON q.source = '{source.value}' AND q.grant_id = b.id AND q.answer <> '' "
        f"JOIN {CAMPAIGN_TABLE} c ON c.id = q.campaign_id "
        f"AND c.state = '{CampaignState.FINISHED.value}' GROUP BY b.id",
        **assignment.ctes(),
    }
    values = {
        **_NO_EVIDENCE,
        "campaign_id": str(rules.campaign),
        "source": f"'{source.value}'",
        "grant_id": "b.id",
        "principal_id": "b.principal_id",
        "principal_name": "b.name",
        "granted_at": "b.granted_at",
        "valid_until": "b.valid_until",
        "is_ended": f"(b.valid_until IS NOT NULL AND b.valid_until <= {rules.at})",
        "last_used_on": "used.day",
        "is_new": "FALSE" if rules.previous is None else "(before_.id IS NULL)",
        "last_reviewed_at": "p.answered_at",
        "previous_answer": "coalesce(p.answer, '')",
        **evidence.values(),
        **assignment.values(),
    }
    with_ = ",\n".join(f"{name} AS ({sql})" for name, sql in queries.items())
    return (
        f"INSERT INTO {ITEM_TABLE} ({', '.join(values)})\nWITH {with_}\n"
        f"SELECT {', '.join(f'{value} AS {name}' for name, value in values.items())}\n"
        f"FROM b LEFT JOIN used ON used.id = b.id {evidence.joins()} {assignment.joins()} "
        f"LEFT JOIN last_answers la ON la.id = b.id LEFT JOIN {ITEM_TABLE} p ON p.id = la.item_id "
        f"LEFT JOIN {ITEM_TABLE} before_ ON before_.campaign_id = {rules.previous or 0} "
        f"AND before_.source = '{source.value}' AND before_.grant_id = b.id\n"
        f"ORDER BY {evidence.order}",
        parameters,
    )


def reviewer_counts_sql(rules: PreparationRules, source: ItemSource, batch: QuerySet) -> tuple[str, list]:
    """Return the query for the number of items that each reviewer gets of a batch, with its parameters. Its columns are
    the primary key of the reviewer, or null for administrators, and the number.
    """
    _, assignment, rows, parameters = _parts(rules, source, batch)
    with_ = ",\n".join(f"{name} AS ({sql})" for name, sql in {"b": rows, **assignment.ctes()}.items())
    return (
        f"WITH {with_}\nSELECT r.reviewer, count(*) FROM (SELECT {assignment.values()['reviewer_id']} AS reviewer "
        f"FROM b {assignment.joins()}) r GROUP BY r.reviewer",
        parameters,
    )


def _parts(
    rules: PreparationRules, source: ItemSource, batch: QuerySet
) -> tuple["GrantEvidence | MembershipEvidence", Assignment, str, list]:
    """Return the evidence and the assignment of a batch, and the query of its rows with its parameters."""
    rows, parameters = batch.order_by().query.sql_with_params()
    evidence = MembershipEvidence(rules, source) if source.is_membership else GrantEvidence(rules, source)
    return evidence, Assignment(rules, source), evidence.rows(f"({rows}) g"), list(parameters)


_IS_ACTIVE = active_principal_sql("u")


def _last_use(source: ItemSource) -> str:
    """Return the query for the last day of use of each row of the batch."""
    grants, entity, user = "", "b.entity_id", "b.principal_id"
    if source.is_membership:
        grants = f"JOIN given v ON v.member_of = b.group_id JOIN {GROUP_GRANT_TABLE} dg ON dg.group_id = v.group_id"
        entity = "dg.content_object_id"
    if source.is_of_group:
        grants += f" JOIN {_members()} dm ON dm.group_id = b.principal_id"
        user = "dm.user_id"
    return (
        f"SELECT b.id, max(d.day) AS day FROM b {grants} JOIN {USAGE_TABLE} d ON d.user_id = {user} "
        f"AND d.entity_id = {entity} GROUP BY b.id"
    )


def _members(at: str = "") -> str:
    """Return a subquery for the users in groups and roles, each pair once. at: when; by default, at any time."""

    def counts(alias: str) -> str:
        return in_force_sql(alias, at) if at else "1 = 1"

    return (
        f"(SELECT o.user_id, o.group_id FROM {MEMBER_TABLE} o WHERE {counts('o')} UNION ALL "
        f"SELECT DISTINCT r.user_id, r.role_id FROM {ROLE_MEMBER_TABLE} r WHERE {counts('r')} AND NOT EXISTS "
        f"(SELECT 1 FROM {MEMBER_TABLE} o WHERE o.user_id = r.user_id AND o.group_id = r.role_id AND {counts('o')}))"
    )


def _active_members(at: str) -> str:
    """Return the part of a query after FROM for the memberships `m` that count at this time."""
    return f"{_members(at)} m JOIN {USER_TABLE} u ON u.id = m.user_id AND {_IS_ACTIVE}"


def _group_ctes(at: str) -> dict[str, str]:
    """Return the queries for the number of active members of each group, and for the first two of them.

    If fewer than two ADMIN holders remain, the first two members of each group are enough to find all of
    them.
    """
    members = _active_members(at)
    return {
        "two": f"SELECT r.group_id, r.user_id FROM (SELECT m.group_id, m.user_id, row_number() OVER (PARTITION BY m.group_id "
        f"ORDER BY m.user_id) AS place FROM {members}) r WHERE r.place <= {MIN_ADMINISTRATORS}",
        "sizes": f"SELECT m.group_id, count(*) AS size FROM {members} GROUP BY m.group_id",
    }


def _ended_memberships(at: str) -> dict[str, str]:
    """Return the queries for the small groups and roles in which each reviewed membership of a user is the only reason that
    the user counts as a member, and for the other members.

    Only groups of at most two active members matter: any other one leaves enough ADMIN holders.
    """
    in_role = f"{ROLE_MEMBER_TABLE} r JOIN {ROLE_GROUP_TABLE} v ON v.id = r.via_id"
    ended = (
        f"SELECT w.id, w.user_id, w.group_id FROM ("
        f"SELECT b.id, b.principal_id AS user_id, b.group_id, b.group_id AS via FROM b WHERE b.is_active = 1 UNION ALL "
        f"SELECT b.id, r.user_id, r.role_id, v.group_id FROM {in_role} JOIN b ON b.principal_id = r.user_id "
        f"AND b.group_id = v.group_id WHERE b.is_active = 1 AND {in_force_sql('r', at)}) w "
        f"JOIN sizes z ON z.group_id = w.group_id AND z.size <= {MIN_ADMINISTRATORS} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {in_role} WHERE r.user_id = w.user_id AND r.role_id = w.group_id "
        f"AND v.group_id <> w.via AND {in_force_sql('r', at)}) "
        f"AND (w.via = w.group_id OR NOT EXISTS (SELECT 1 FROM {MEMBER_TABLE} o WHERE o.user_id = w.user_id "
        f"AND o.group_id = w.group_id AND {in_force_sql('o', at)}))"
    )
    return {
        "changed": ended,
        "remaining": "SELECT c.id, c.group_id, t.user_id FROM changed c JOIN two t ON t.group_id = c.group_id "
        "AND t.user_id <> c.user_id",
    }


def _members_left(rules: PreparationRules) -> dict[str, str]:
    """Return the queries for the active members that the role of each reviewed membership of a group has without this
    group, and for the roles that lose some and keep fewer than two.

    Only roles with ADMIN on a live entity matter. A member that is in the role in several ways stays, whichever
    membership ends. The cost is proportional to the members of the roles: of each way into a role the first member comes
    before the second of any, so the first four are enough, whichever way ends.
    """
    at = rules.at
    members = (
        f"SELECT o.group_id, o.user_id, 0 AS via FROM {MEMBER_TABLE} o WHERE {in_force_sql('o', at)} UNION ALL "
        f"SELECT r.role_id, r.user_id, r.via_id FROM {ROLE_MEMBER_TABLE} r WHERE {in_force_sql('r', at)}"
    )
    return {
        # via: the only membership of a group that gives the role to the user, or 0
        "ways": f"SELECT m.group_id, m.user_id, CASE WHEN min(m.via) = max(m.via) THEN min(m.via) ELSE 0 END AS via "
        f"FROM ({members}) m JOIN {USER_TABLE} u ON u.id = m.user_id AND {_IS_ACTIVE} WHERE m.group_id IN "
        f"(SELECT g.group_id FROM {_live_admin_grants(rules)} WHERE g.group_id IN (SELECT group_id FROM b)) "
        f"GROUP BY m.group_id, m.user_id",
        "kept": "SELECT r.* FROM (SELECT q.*, row_number() OVER (PARTITION BY q.group_id ORDER BY q.turn, q.via) AS place "
        "FROM (SELECT w.*, row_number() OVER (PARTITION BY w.group_id, w.via ORDER BY w.user_id) AS turn FROM ways w) q) r "
        f"WHERE r.place <= {2 * MIN_ADMINISTRATORS}",
        "remaining": "SELECT b.id, b.group_id, k.user_id FROM b JOIN kept k ON k.group_id = b.group_id AND k.via <> b.id",
        "changed": "SELECT b.id, b.group_id FROM b JOIN kept k ON k.group_id = b.group_id GROUP BY b.id, b.group_id "
        f"HAVING count(CASE WHEN k.via <> b.id THEN 1 END) < {MIN_ADMINISTRATORS} "
        f"AND count(CASE WHEN k.via = b.id THEN 1 END) > 0",
    }


def _members_of_group(at: str) -> str:
    """Return the query for the active members of the group of each reviewed membership of a group, and how many of them are
    in the role directly too.
    """
    return (
        f"SELECT b.id, count(*) AS size, count(d.user_id) AS direct FROM b JOIN {MEMBER_TABLE} m ON m.group_id = b.principal_id "
        f"AND {in_force_sql('m', at)} JOIN {USER_TABLE} u ON u.id = m.user_id AND {_IS_ACTIVE} LEFT JOIN {MEMBER_TABLE} d "
        f"ON d.user_id = m.user_id AND d.group_id = b.group_id AND {in_force_sql('d', at)} GROUP BY b.id"
    )


def _live_admin_grants(rules: PreparationRules) -> str:
    """Return the part of a query after FROM for the grants `g` of ADMIN to groups and roles that count, on live entities."""
    return (
        f"{GROUP_GRANT_TABLE} g JOIN {ENTITY_TABLE} e ON e.id = g.content_object_id AND e.state = '{State.LIVE.value}' "
        f"AND g.permission_id = {rules.admin} AND {in_force_sql('g', rules.at)}"
    )


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


class GrantEvidence:
    """The parts of the statement for grants to users, or to groups."""

    order = "b.entity_id, b.principal_id, b.permission_id"

    def __init__(self, rules: PreparationRules, source: ItemSource):
        self.rules, self.is_user = rules, source == ItemSource.USER

    def rows(self, batch: str) -> str:
        principal = "user_id" if self.is_user else "group_id"
        name, join = (
            ("pu.username", f"JOIN {USER_TABLE} pu ON pu.id = g.user_id")
            if self.is_user
            else ("po.name", f"JOIN {GROUP_TABLE} po ON po.id = g.group_id")
        )
        is_active = active_principal_sql("pu") if self.is_user else "FALSE"
        counts = f"{is_active} AND {in_force_sql('g', self.rules.at)}"
        return (
            f"SELECT g.id, g.{principal} AS principal_id, {name} AS name, g.permission_id, g.granted_at, g.reason, "
            f"g.valid_until, CASE WHEN {is_active} THEN 1 ELSE 0 END AS is_active, CASE WHEN {counts} THEN 1 ELSE 0 END "
            f"AS counts, coalesce(gu.username, '') AS granted_by, e.id AS entity_id, e.kind, e.key, e.state, "
            f"coalesce(n.key, '') AS namespace FROM {batch} {join} JOIN {ENTITY_TABLE} e ON e.id = g.content_object_id "
            f"LEFT JOIN {ENTITY_TABLE} n ON n.id = e.namespace_id LEFT JOIN {USER_TABLE} gu ON gu.id = g.granted_by_id"
        )

    def queries(self) -> dict[str, str]:
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
            f"JOIN {_members(at)} m ON m.user_id = g.user_id WHERE g.content_object_id IN "
            f"(SELECT entity_id FROM b) AND {in_force_sql('g', at)} GROUP BY 1, 2, 3",
            # in each group of the user: the other active members, and those of them who hold the same
            "peers": f"SELECT b.id, m.group_id, z.size - b.is_active AS peers, coalesce(h.holders, b.counts) - b.counts "
            f"AS peer_holders FROM b JOIN {_members(at)} m ON m.user_id = b.principal_id "
            f"JOIN sizes z ON z.group_id = m.group_id LEFT JOIN holding h ON h.group_id = m.group_id "
            f"AND h.entity_id = b.entity_id AND h.permission_id = b.permission_id WHERE z.size > b.is_active",
            # the first of the user's groups that gives the same
            "redundant": f"SELECT b.id, min(rm.group_id) AS group_id FROM b "
            f"JOIN {_members(at)} rm ON rm.user_id = b.principal_id "
            f"JOIN {GROUP_GRANT_TABLE} rg ON rg.group_id = rm.group_id "
            f"AND rg.content_object_id = b.entity_id AND rg.permission_id = b.permission_id "
            f"AND {in_force_sql('rg', at)} GROUP BY b.id",
            "best": "SELECT r.* FROM (SELECT id, group_id, peers, peer_holders, row_number() OVER (PARTITION BY id "
            "ORDER BY peer_holders * 1.0 / peers DESC, peers DESC, group_id) AS place FROM peers) r WHERE r.place = 1",
        }

    def joins(self) -> str:
        losses = "LEFT JOIN losses l ON l.id = b.id"
        if self.is_user:
            return (
                f"{losses} LEFT JOIN best k ON k.id = b.id LEFT JOIN {GROUP_TABLE} ko ON ko.id = k.group_id "
                f"LEFT JOIN redundant rt ON rt.id = b.id LEFT JOIN {GROUP_TABLE} ro ON ro.id = rt.group_id"
            )
        return f"{losses} LEFT JOIN sizes z ON z.group_id = b.principal_id"

    def values(self) -> dict[str, str]:
        of_grants = {
            "entity_id": "b.entity_id",
            "kind": "b.kind",
            "key": "b.key",
            "namespace": "b.namespace",
            "permission_id": "b.permission_id",
            "entity_state": "b.state",
            "granted_by": "b.granted_by",
            "reason": "b.reason",
            "admins_left": _admin_count_sql("l"),
        }
        if not self.is_user:
            return of_grants | {"reach": "coalesce(z.size, 0)"}
        return of_grants | {
            "redundant_through": "coalesce(ro.name, '')",
            "peers": "coalesce(k.peers, 0)",
            "peer_holders": "coalesce(k.peer_holders, 0)",
            "peer_group": "coalesce(ko.name, '')",
        }


def _admin_count_sql(alias: str) -> str:
    return (
        f"CASE WHEN {alias}.admins_left < {MIN_ADMINISTRATORS} AND {alias}.admins_left < {alias}.before_count "
        f"THEN {alias}.admins_left END"
    )


class MembershipEvidence:
    """The parts of the statement for memberships of users in groups and roles, or of groups in roles. Only the history knows
    who added a member, and when.
    """

    order = "b.group_id, b.principal_id"

    def __init__(self, rules: PreparationRules, source: ItemSource):
        self.rules, self.is_user = rules, not source.is_of_group

    def rows(self, batch: str) -> str:
        type_, group, table, name, periods = (
            ("user", "group", USER_TABLE, "username", MembershipPeriod)
            if self.is_user
            else ("group", "role", GROUP_TABLE, "name", RoleGroupPeriod)
        )
        is_active = active_principal_sql("pm") if self.is_user else "FALSE"
        return (
            f"SELECT g.id, g.{type_}_id AS principal_id, pm.{name} AS name, g.{group}_id AS group_id, o.name AS group_name, "
            f"CASE WHEN {is_active} THEN 1 ELSE 0 END AS is_active, i.at AS granted_at, i.actor, i.reason, g.valid_until "
            f"FROM {batch} JOIN {table} pm ON pm.id = g.{type_}_id JOIN {GROUP_TABLE} o ON o.id = g.{group}_id "
            f"LEFT JOIN {KNOWN_TABLE} hm ON hm.type = '{type_}' AND hm.name = pm.{name} "
            f"LEFT JOIN {KNOWN_TABLE} hg ON hg.type = 'group' AND hg.name = o.name "
            f'LEFT JOIN {periods._meta.db_table} mp ON mp."{type_}" = hm.id AND mp."{group}" = hg.id '
            f"AND mp.until_revision IS NULL LEFT JOIN {LINE_TABLE} i ON i.revision = mp.from_revision"
        )

    def queries(self) -> dict[str, str]:
        # more administrators than these remain, whichever membership ends
        limit = MIN_ADMINISTRATORS * (1 if self.is_user else 2)
        return {
            **_group_ctes(self.rules.at),
            # the groups with the roles that they are in
            "given": f"SELECT DISTINCT b.group_id AS member_of, b.group_id FROM b UNION ALL SELECT DISTINCT r.group_id, r.role_id "
            f"FROM {ROLE_GROUP_TABLE} r JOIN b ON b.group_id = r.group_id WHERE {in_force_sql('r', self.rules.at)}",
            **(
                _ended_memberships(self.rules.at)
                if self.is_user
                else _members_left(self.rules) | {"in_group": _members_of_group(self.rules.at)}
            ),
            "pairs": f"SELECT DISTINCT c.id, c.group_id, g.content_object_id AS entity_id FROM {_live_admin_grants(self.rules)} "
            f"JOIN changed c ON c.group_id = g.group_id",
            "sources": _admin_sources(self.rules, "SELECT entity_id FROM pairs"),
            "few": f"SELECT s.entity_id FROM sources s GROUP BY s.entity_id HAVING count(DISTINCT s.user_id) <= {limit}",
            "left_on": "SELECT l.id, l.entity_id, count(DISTINCT l.holder) AS before_count, count(DISTINCT l.kept) AS admins_left "
            "FROM (SELECT p.id, p.entity_id, s.user_id AS holder, CASE WHEN c.id IS NULL THEN s.user_id END AS kept FROM pairs p "
            "JOIN few ON few.entity_id = p.entity_id JOIN sources s ON s.entity_id = p.entity_id "
            "LEFT JOIN changed c ON c.id = p.id AND c.group_id = s.group_id UNION ALL "
            "SELECT p.id, p.entity_id, NULL, m.user_id FROM pairs p JOIN few ON few.entity_id = p.entity_id "
            "JOIN remaining m ON m.id = p.id AND m.group_id = p.group_id) l GROUP BY l.id, l.entity_id",
            "losses": f"SELECT l.id, min({_admin_count_sql('l')}) AS admins_left FROM left_on l GROUP BY l.id",
            "grant_counts": f"SELECT v.member_of AS group_id, count(*) AS size FROM {GROUP_GRANT_TABLE} g "
            f"JOIN given v ON v.group_id = g.group_id GROUP BY v.member_of",
        }

    def joins(self) -> str:
        of_group = "" if self.is_user else " LEFT JOIN in_group ig ON ig.id = b.id"
        return f"LEFT JOIN losses l ON l.id = b.id LEFT JOIN grant_counts gc ON gc.group_id = b.group_id{of_group}"

    def values(self) -> dict[str, str]:
        of_group = {
            "peers": "coalesce(ig.size, 0)",
            "peer_holders": "coalesce(ig.direct, 0)",
            "peer_group": "b.name",
        }
        return {
            "group_name": "b.group_name",
            "granted_by": "coalesce(b.actor, '')",
            "reason": "coalesce(b.reason, '')",
            "admins_left": "l.admins_left",
            "reach": "coalesce(gc.size, 0)",
            **({} if self.is_user else of_group),
        }
