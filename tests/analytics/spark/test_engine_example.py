"""The engine computes every table of the worked example in docs/engine.md."""

import re

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.batches import unpack_numbers
from analytics.spark.engine.count import HolderKind, UnitHoldings, count_units
from analytics.spark.engine.facts import find_entries
from analytics.spark.engine.layout import WORD_BITS, split_into_units
from analytics.spark.engine.members import EVERYONE
from analytics.spark.engine.merge import count_stages
from analytics.spark.engine.rows import GROUP, NONE, decode_batches, encode_batch
from analytics.spark.engine.rules import PRIVILEGES, compile_rules, number_kinds, visibility_rules
from analytics.spark.engine.small_tenant import (
    TABLE_COLUMNS,
    LocalBroadcast,
    SmallTenantRules,
    Tenant,
    tenant_rows,
)
from authzconsole.ops import ROOT

RULE_SET = visibility_rules("final")
KINDS = number_kinds(RULE_SET)
RULES = compile_rules(RULE_SET, KINDS)
COLUMNS = (
    ("user", "user"),
    ("kind", tuple(rule.kind for rule in RULE_SET.rules)),
    ("namespace", "namespace"),
    ("visible", "gained"),
)
RULES_BY_KIND = sorted(range(len(RULE_SET.rules)), key=lambda rule: RULE_SET.rules[rule].kind)
ORDER = tuple(RULES_BY_KIND.index(rule) for rule in range(len(RULE_SET.rules)))


def document_table(heading):
    """Return the rows of the first table below a heading, each as {column: text}."""
    text = (ROOT / "docs" / "engine.md").read_text()
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
    text_columns = {"kind", "key", "state", "name", "principal_type", "privilege"}
    columns = dict.fromkeys(column for columns in TABLE_COLUMNS.values() for column in columns)
    schema = pa.schema(
        [
            ("table", pa.string()),
            *((column, pa.string() if column in text_columns else pa.int64()) for column in columns),
        ]
    )
    return Tenant(
        [
            pa.RecordBatch.from_pylist(
                [{"table": table, **row} for table in rows for row in rows[table]], schema
            )
        ]
    )


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
def small_rules():
    return SmallTenantRules(RULES, KINDS, PRIVILEGES)


@pytest.fixture(scope="module")
def directory(tenant, small_rules):
    return tenant.directory(small_rules)


@pytest.fixture
def batches(tenant, small_rules):
    return [encode_batch(tenant_rows(tenant, small_rules))]


@pytest.fixture
def unit_and_rows(batches, directory):
    """Return the only unit of the tenant, and its rows."""
    [unit_and_rows] = split_into_units(decode_batches(batches), directory)
    return unit_and_rows


def name_of(number, numbers_by_name):
    return next((name for name, known_number in numbers_by_name.items() if known_number == number), "-")


def test_the_target_rows_equal_those_of_the_document(batches, ids):
    entity_ids, _, _ = ids
    targets = decode_batches(batches).targets
    assert [
        {
            "entity": name_of(entity, entity_ids),
            "subtree": name_of(subtree, entity_ids),
            "block": str(block),
            "kind": str(kind),
            "application": name_of(application, entity_ids),
        }
        for entity, subtree, block, kind, application in zip(
            targets.entity, targets.subtree, targets.block, targets.kind, targets.application, strict=True
        )
    ] == document_table("Target rows")


def test_the_grant_rows_equal_those_of_the_document(batches, ids):
    entity_ids, user_ids, group_ids = ids
    grants = decode_batches(batches).grants
    assert [
        {
            "principal_type": "GROUP" if principal_type == GROUP else "USER",
            "principal": name_of(principal, group_ids if principal_type == GROUP else user_ids),
            "privilege": PRIVILEGES[privilege],
            "entity": name_of(entity, entity_ids),
            "subtree": name_of(subtree, entity_ids),
            "block": str(block),
            "application": name_of(application, entity_ids),
        }
        for principal_type, principal, privilege, entity, subtree, block, application in zip(
            grants.principal_type,
            grants.principal,
            grants.privilege,
            grants.entity,
            grants.subtree,
            grants.block,
            grants.application,
            strict=True,
        )
    ] == document_table("Grant rows")


def test_the_positions_equal_those_of_the_document(unit_and_rows, ids):
    unit, _ = unit_and_rows
    assert [
        {"position": str(position), "word": str(position // WORD_BITS), "entity": name_of(entity, ids[0])}
        for position, entity in zip(unit.position, unit.entity, strict=True)
    ] == document_table("Layout")


def test_the_entries_and_overlaps_equal_those_of_the_document(unit_and_rows, directory, ids):
    unit, rows = unit_and_rows
    entries = find_entries(unit, rows, RULES, directory)
    has_overlap = UnitHoldings(unit, entries, directory).has_overlap
    entity_by_position = dict(zip(unit.position.tolist(), unit.entity.tolist(), strict=True))
    assert sorted(
        (
            RULES.facts[fact].form,
            principal_name(principal, directory, ids),
            name_of(entity_by_position[position], ids[0]),
            "yes" if has_overlap[position] else "no",
        )
        for fact, fact_entries in enumerate(entries)
        for principal, position in set(
            zip(fact_entries.principal.tolist(), fact_entries.position.tolist(), strict=True)
        )
    ) == sorted(
        tuple(row[name] for name in ("fact", "principal", "target", "overlap"))
        for row in document_table("Facts")
    )


def principal_name(principal, directory, ids):
    _, user_ids, group_ids = ids
    if principal >= 0:
        return f"user:{name_of(directory.user_ids[principal], user_ids)}"
    return f"group:{name_of(directory.group_ids[EVERYONE - 1 - principal], group_ids)}"


def test_the_counts_equal_those_of_the_document(batches, directory, ids):
    rows = [
        (
            principal_name(
                holder if counts.holder == HolderKind.USER else EVERYONE - 1 - holder, directory, ids
            ),
            RULE_SET.rules[rule].kind,
            str(gained),
        )
        for counts in count_units(iter(batches), RULES, directory, by_subtree=True)
        if counts.holder != HolderKind.EVERYONE
        for holder, rule, gained in zip(counts.holders, counts.rules, counts.gained, strict=True)
    ]
    assert sorted(rows) == sorted(
        tuple(row[name] for name in ("holder", "kind", "gained")) for row in document_table("Counts")
    )


def test_the_packed_counts_and_the_result_equal_those_of_the_document(batches, directory):
    pack, merge = count_stages(RULES, ORDER, COLUMNS, True, 1, LocalBroadcast(directory.to_dict()))
    packed = list(pack(iter(batches)))
    rows = [row for batch in packed for row in batch.to_pylist()]

    def numbers_text(value):
        return "-" if value is None else " ".join(map(str, unpack_numbers(value).tolist()))

    assert [
        {"part": str(row["part"])}
        | {name: numbers_text(row[name]) for name in ("users", "groups", "buckets", "gained")}
        for row in rows
    ] == document_table("Packed counts")
    result = [
        {name: str(value) for name, value in row.items()}
        for batch in merge(iter(packed))
        for row in batch.to_pylist()
    ]
    assert result == document_table("Result")


def test_the_buckets_equal_those_of_the_document(directory):
    namespaces = directory.namespace_names.to_pylist()
    buckets = {
        ORDER[rule] * len(namespaces) + rank: (RULE_SET.rules[rule].kind, name)
        for rule in range(len(ORDER))
        for rank, name in enumerate(namespaces)
    }
    assert np.all(directory.namespace_ids[0] == NONE)
    assert all(
        buckets[int(row["bucket"])] == (row["kind"], row["namespace"]) for row in document_table("Buckets")
    )
