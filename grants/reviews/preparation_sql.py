"""Build the statements that write the items of a campaign with their evidence: one INSERT for each batch of
reviewed rows.

A batch is a range of entities, or of memberships. The cost of a statement is proportional to the grants in
its range: evidence that compares grants (other administrators, peers) is computed with joins in the range,
not with a query for each grant.

Aliases: `b` a reviewed row, `s` a source of ADMIN, `t` one of the first two active members of a group.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from grants.models.reviews import CampaignState, ItemSource
from grants.reviews.assignment_sql import Assignment
from grants.reviews.evidence_sql import GrantParts, MembershipParts, last_use
from grants.reviews.preparation_rules import (
    CAMPAIGN_TABLE,
    ENTITY_TABLE,
    GRANT_TABLES,
    GROUP_GRANT_TABLE,
    ITEM_TABLE,
    MEMBER_TABLE,
    USAGE_TABLE,
    PreparationRules,
)

ITEM_COLUMNS = (
    "campaign_id",
    "source",
    "grant_id",
    "principal_id",
    "principal_name",
    "group_name",
    "entity_id",
    "kind",
    "key",
    "namespace",
    "permission_id",
    "entity_state",
    "granted_at",
    "granted_by",
    "reason",
    "valid_until",
    "redundant_through",
    "admins_left",
    "peers",
    "peer_holders",
    "peer_group",
    "reach",
    "last_used_on",
    "last_reviewed_at",
    "previous_answer",
    "is_new",
    "is_ended",
    "reviewer_id",
    "escalated",
    "answer",
    "comment",
    "answered_by",
)


@dataclass(frozen=True, slots=True)
class ItemsQuery:
    """A query for items, with the columns ITEM_COLUMNS.

    parts: its common table expressions by name, in their order. parameters: those of the first part, `b`,
    after the two limits of the batch.
    """

    parts: Mapping[str, str]
    select: str
    parameters: list


def last_of_batch_sql(rules: PreparationRules, source: ItemSource) -> tuple[str, list]:
    """Return the query for the end of the next batch.

    Its last two parameters are the end of the previous batch and the number of rows in a batch.
    """
    conditions, parameters = _scope(rules, source)
    table, position = _table_of(source), _position_of(source)
    return (
        f"SELECT max(place) FROM (SELECT {position} AS place FROM {table} g {_joined_entity(rules, source)} "
        f"WHERE {' AND '.join([*conditions, f'{position} > %s'])} ORDER BY {position} LIMIT %s) x",
        parameters,
    )


def count_sql(rules: PreparationRules, source: ItemSource) -> tuple[str, list]:
    """Return the query for the number of reviewed rows, up to a limit, which is its last parameter."""
    conditions, parameters = _scope(rules, source)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return (
        f"SELECT count(*) FROM (SELECT 1 FROM {_table_of(source)} g {_joined_entity(rules, source)} "
        f"{where} LIMIT %s) x",
        parameters,
    )


def insert_sql(rules: PreparationRules, source: ItemSource) -> tuple[str, list]:
    """Return the INSERT for one batch.

    Its first parameters are the limits of the batch: after the first, up to the second.
    """
    query = items_query(rules, source)
    with_ = ",\n".join(f"{name} AS ({sql})" for name, sql in query.parts.items())
    return (
        f"INSERT INTO {ITEM_TABLE} ({', '.join(ITEM_COLUMNS)})\nWITH {with_}\n{query.select}",
        query.parameters,
    )


def items_query(rules: PreparationRules, source: ItemSource) -> ItemsQuery:
    """Return the query for the items of one source, the only definition of their evidence.

    It consists of joins, so that PostgreSQL and SQLite execute it for a batch, and Spark for all rows at
    once.
    """
    scope, parameters = _scope(rules, source)
    evidence = MembershipParts(rules) if source == ItemSource.MEMBERSHIP else GrantParts(rules, source)
    assignment, earlier = Assignment(rules, source), _Earlier(rules, source)
    values = {
        "campaign_id": str(rules.campaign),
        "source": f"'{source.value}'",
        "grant_id": "b.id",
        "answer": "''",
        "is_ended": f"(b.valid_until IS NOT NULL AND b.valid_until <= {rules.at})",
        "comment": "''",
        "answered_by": "''",
        **earlier.values(),
        **evidence.values(),
        **assignment.values(),
    }
    return ItemsQuery(
        parts={
            "b": evidence.rows(scope),
            "used": last_use(source),
            **earlier.ctes(),
            **evidence.ctes(),
            **assignment.ctes(),
        },
        select=f"SELECT {', '.join(f'{values[name]} AS {name}' for name in ITEM_COLUMNS)}\n"
        f"FROM b LEFT JOIN used ON used.id = b.id {' '.join(evidence.joins())} {assignment.joins()} {earlier.joins()}\n"
        f"ORDER BY {evidence.order()}",
        parameters=parameters,
    )


class _Earlier:
    """The parts of the statement that compare with earlier campaigns."""

    def __init__(self, rules: PreparationRules, source: ItemSource):
        self.rules, self.source = rules, source

    def ctes(self) -> dict[str, str]:
        if not self.rules.has_reviews:
            return {}
        # the last answered item of the same row in a finished campaign
        return {
            "last_answers": f"SELECT b.id, max(q.id) AS item_id FROM b JOIN {ITEM_TABLE} q "
            f"ON q.source = '{self.source.value}' AND q.grant_id = b.id AND q.answer <> '' "
            f"JOIN {CAMPAIGN_TABLE} c ON c.id = q.campaign_id "
            f"AND c.state = '{CampaignState.FINISHED.value}' GROUP BY b.id"
        }

    def joins(self) -> str:
        joins = ""
        if self.rules.has_reviews:
            joins += (
                f"LEFT JOIN last_answers la ON la.id = b.id LEFT JOIN {ITEM_TABLE} p ON p.id = la.item_id "
            )
        if self.rules.previous is not None:
            joins += (
                f"LEFT JOIN {ITEM_TABLE} before_ ON before_.campaign_id = {self.rules.previous} "
                f"AND before_.source = '{self.source.value}' AND before_.grant_id = b.id "
            )
        return joins

    def values(self) -> dict[str, str]:
        return {
            "is_new": "FALSE" if self.rules.previous is None else "(before_.id IS NULL)",
            "last_reviewed_at": "p.answered_at" if self.rules.has_reviews else "NULL",
            "previous_answer": "coalesce(p.answer, '')" if self.rules.has_reviews else "''",
        }


def _table_of(source: ItemSource) -> str:
    return MEMBER_TABLE if source == ItemSource.MEMBERSHIP else GRANT_TABLES[source][0]


def _position_of(source: ItemSource) -> str:
    return "g.id" if source == ItemSource.MEMBERSHIP else "g.content_object_id"


def _joined_entity(rules: PreparationRules, source: ItemSource) -> str:
    return (
        f"JOIN {ENTITY_TABLE} e ON e.id = g.content_object_id"
        if rules.kinds and source != ItemSource.MEMBERSHIP
        else ""
    )


def _scope(rules: PreparationRules, source: ItemSource) -> tuple[list[str], list]:
    """Return the conditions on a reviewed row `g`, with its entity `e` where kinds matter, and their
    parameters.
    """
    conditions: list[str] = []
    parameters: list = []
    if rules.user is not None:
        conditions.append(f"g.user_id = {rules.user}")
    if rules.group is not None:
        conditions.append(f"g.group_id = {rules.group}")
    if source != ItemSource.MEMBERSHIP:
        if rules.namespace is not None:
            conditions.append(f"g.namespace_id = {rules.namespace}")
        if rules.permissions:
            conditions.append(f"g.permission_id IN ({', '.join(map(str, rules.permissions))})")
        if rules.kinds:
            conditions.append(f"e.kind IN ({', '.join(['%s'] * len(rules.kinds))})")
            parameters += rules.kinds
    if rules.unused_before is not None:
        conditions.append(f"NOT EXISTS ({_recent_use(source)} AND d.day >= %s)")
        parameters.append(rules.unused_before.date())
        if source != ItemSource.MEMBERSHIP:
            conditions.append("g.granted_at < %s")
            parameters.append(rules.unused_before)
    return conditions, parameters


def _recent_use(source: ItemSource) -> str:
    """Return the query for the records of use of the reviewed row `g`."""
    if source == ItemSource.USER:
        return (
            f"SELECT 1 FROM {USAGE_TABLE} d WHERE d.user_id = g.user_id AND d.entity_id = g.content_object_id"
        )
    if source == ItemSource.GROUP:
        return (
            f"SELECT 1 FROM {USAGE_TABLE} d JOIN {MEMBER_TABLE} dm ON dm.user_id = d.user_id "
            f"WHERE d.entity_id = g.content_object_id AND dm.group_id = g.group_id"
        )
    return (
        f"SELECT 1 FROM {USAGE_TABLE} d JOIN {GROUP_GRANT_TABLE} dg ON dg.content_object_id = d.entity_id "
        f"WHERE d.user_id = g.user_id AND dg.group_id = g.group_id"
    )
