"""Build the parts of the statement for items that assign them to reviewers.

Aliases: see `grants.reviews.items_sql`.
"""

from collections.abc import Sequence

from entities.models import State
from grants.models.reviews import ItemSource, ReviewerRule
from grants.querysets import active_principal_sql
from grants.reviews.preparation_rules import (
    ENTITY_TABLE,
    GROUP_GRANT_TABLE,
    LINK_TABLE,
    MEMBER_TABLE,
    USER_GRANT_TABLE,
    USER_TABLE,
    PreparationRules,
)
from grants.roles.capabilities import DELEGATE_ROLES
from grants.validity import in_force_sql

MAX_CANDIDATES = 4


class Assignment:
    """The reviewer of an item: from the rule, or else from the escalation. No user reviews an item about its
    own access.

    Among holders of ADMIN, those on the entity come first, and with delegation those on its nearest
    container.
    """

    def __init__(self, rules: PreparationRules, source: ItemSource):
        self.rules, self.source = rules, source
        self.is_by_holders = rules.rule == ReviewerRule.ADMIN_HOLDERS and source != ItemSource.MEMBERSHIP

    def ctes(self) -> dict[str, str]:
        ctes = {"escalation": _places_sql(self.rules.escalation)} if self.rules.escalation else {}
        if self.rules.rule == ReviewerRule.GROUP and self.rules.reviewers:
            ctes["reviewers"] = _places_sql(self.rules.reviewers)
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
        if self.rules.rule == ReviewerRule.MANAGER and self.source != ItemSource.GROUP:
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
        if self.rules.rule == ReviewerRule.MANAGER and self.source != ItemSource.GROUP:
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
            if self.source == ItemSource.GROUP:
                joins += (
                    f"LEFT JOIN {MEMBER_TABLE} {alias}_own ON {alias}_own.group_id = b.principal_id "
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
        if self.source != ItemSource.GROUP:
            return f"({alias}.user_id = b.principal_id)"
        return f"({alias}_own.user_id IS NOT NULL)"

    def _concerns(self, user: str) -> str:
        """Return the condition that the item is about the access of this user, for statements without the
        joins of `_two_of`.
        """
        if self.source != ItemSource.GROUP:
            return f"({user} = b.principal_id)"
        return (
            f"EXISTS (SELECT 1 FROM {MEMBER_TABLE} cm WHERE cm.group_id = b.principal_id "
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
        f"ORDER BY m.user_id) AS place FROM {MEMBER_TABLE} m JOIN {USER_TABLE} u ON u.id = m.user_id AND {is_person} "
        f"WHERE {in_force_sql('m', rules.at)} AND m.group_id IN (SELECT g.group_id FROM {GROUP_GRANT_TABLE} g "
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


def _places_sql(users: Sequence[int]) -> str:
    """Return a query for these users, numbered from 0 in `place`."""
    return " UNION ALL ".join(
        f"SELECT {place} AS place, {int(user)} AS user_id" for place, user in enumerate(users)
    )
