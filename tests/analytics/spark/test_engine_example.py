"""The engine computes the result of the worked example in docs/concepts/engine.md."""

import re
from functools import partial

import pyarrow as pa
import pytest

from analytics.spark.engine.directory import LocalBroadcast
from analytics.spark.engine.encode import Evaluation
from analytics.spark.engine.rules import visibility_rules
from analytics.spark.engine.small_tenant import SmallTenant
from analytics.spark.engine.sums import SumOrder, merge_sums, pack_sums, sum_rows
from authzconsole.ops import ROOT

EVALUATION = Evaluation(None, visibility_rules("final"))
KINDS = [rule.kind for rule in EVALUATION.rule_set.rules]
ORDER = SumOrder(
    ("user", "rule", "namespace"), tuple(map(sorted(KINDS).index, KINDS)), (True,) * len(KINDS), 1
)


def document_table(heading):
    """Return the rows of the first table below a heading, each as {column: text}."""
    text = (ROOT / "docs" / "concepts" / "engine.md").read_text()
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    lines = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    assert lines, f"no table below {heading}"
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


@pytest.fixture(scope="module")
def ids():
    """Return three dicts: the ids of entities, users and groups by name, in the order of the document."""
    users = [row["user"] for row in document_table("Users and groups")]
    groups = list(
        dict.fromkeys(
            name
            for row in document_table("Users and groups")
            for name in row["groups"].split(", ")
            if name != "-"
        )
    )
    return (
        {row["entity"]: int(row["id"]) for row in document_table("Entities")},
        {user: number for number, user in enumerate(users, 1)},
        {group: number for number, group in enumerate(groups, 1)},
    )


@pytest.fixture(scope="module")
def tenant(ids):
    entity_ids, user_ids, group_ids = ids
    principal_ids = {**user_ids, **group_ids}
    rows = {
        "entities": [entity_row(address, entity_ids) for address in entity_ids],
        "users": [{"id": number, "name": user} for user, number in user_ids.items()],
        "memberships": [
            {"user_id": user_ids[row["user"]], "group_id": group_ids[group]}
            for row in document_table("Users and groups")
            for group in row["groups"].split(", ")
            if group != "-"
        ],
        "grants": [
            {
                "principal_type": row["principal"].partition(":")[0],
                "privilege": row["privilege"],
                "principal_id": principal_ids[row["principal"].partition(":")[2]],
                "entity_id": entity_ids[row["entity"]],
            }
            for row in document_table("Grants")
        ],
    }
    tables = {table: pa.Table.from_pylist(rows[table]) for table in rows}
    return SmallTenant(tables | {"revealed": tables["grants"].slice(0, 0)})


def entity_row(address, entity_ids):
    kind, _, key = address.partition(":")
    namespace, *rest = key.split(".")
    is_in_application = kind in ("application", "program")
    return {
        "id": entity_ids[address],
        "kind": kind,
        "key": key,
        "state": "live",
        "namespace_id": entity_ids[f"namespace:{namespace}"],
        "application_id": entity_ids[f"application:{namespace}.{rest[0]}"] if is_in_application else None,
    }


@pytest.fixture(scope="module")
def directory(tenant):
    return tenant.directory(EVALUATION)


@pytest.fixture(scope="module")
def batch(tenant):
    return tenant.encode(EVALUATION)


def test_the_result_equals_that_of_the_document(batch, directory):
    broadcast = LocalBroadcast(directory.to_dict())
    columns = {"user": "user", "kind": sorted(KINDS), "namespace": "namespace", "visible": "gained"}
    merge = merge_sums(ORDER, partial(sum_rows, columns), broadcast)
    result = merge(pack_sums(EVALUATION.rules, ORDER, broadcast)(iter([batch])))
    assert [
        {name: str(value) for name, value in row.items()} for rows in result for row in rows.to_pylist()
    ] == document_table("Result")
