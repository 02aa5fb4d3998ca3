"""The engine computes every table of the worked example in docs/engine.md."""

import re
from functools import partial

import pyarrow as pa
import pytest

from analytics.spark.engine.bits import changed_bits
from analytics.spark.engine.directory import LocalBroadcast
from analytics.spark.engine.encode import Evaluation
from analytics.spark.engine.rows import GRANT, GROUP, TARGET, decode_batches
from analytics.spark.engine.rules import PRIVILEGES, visibility_rules
from analytics.spark.engine.small_tenant import SmallTenant
from analytics.spark.engine.sums import SumOrder, merge_sums, pack_sums, sum_rows
from analytics.spark.engine.units import WORD_BITS, split_into_units
from authzconsole.ops import ROOT

EVALUATION = Evaluation(None, visibility_rules("final"))
KINDS = [rule.kind for rule in EVALUATION.rule_set.rules]
ORDER = SumOrder(
    ("user", "rule", "namespace"), tuple(map(sorted(KINDS).index, KINDS)), (True,) * len(KINDS), 1
)


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
    return SmallTenant({table: pa.Table.from_pylist(rows[table]) for table in rows})


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


@pytest.fixture(scope="module")
def rows(batch):
    rows, _ = decode_batches([batch])
    return rows


@pytest.fixture(scope="module")
def unit(rows, directory):
    """Return the only unit of the tenant."""
    [unit] = split_into_units(rows, directory)
    return unit


def name_of(number, numbers_by_name):
    return next((name for name, known_number in numbers_by_name.items() if known_number == number), "-")


def test_the_target_rows_equal_those_of_the_document(rows, ids):
    entity_ids, _, _ = ids
    targets = rows.select(rows.form == TARGET)
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


def test_the_grant_rows_equal_those_of_the_document(rows, ids):
    entity_ids, user_ids, group_ids = ids
    grants = rows.select(rows.form == GRANT)
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
            grants.selector,
            grants.entity,
            grants.subtree,
            grants.block,
            grants.application,
            strict=True,
        )
    ] == document_table("Grant rows")


def test_the_positions_equal_those_of_the_document(unit, rows, ids):
    assert [
        {"position": str(position), "word": str(position // WORD_BITS), "entity": name_of(entity, ids[0])}
        for position, entity in zip(unit.position, rows.entity[unit.target_row], strict=True)
    ] == document_table("Layout")


def test_the_bits_equal_those_of_the_document(unit, directory):
    positions = {name: [] for name in directory.user_names.to_pylist()}
    for changes in changed_bits(unit, EVALUATION.rules, directory):
        first_word = unit.segment_begin[changes.segments[0]]
        for user, words in zip(changes.users, changes.gained.tolist(), strict=True):
            positions[directory.user_names[directory.user_ranks[user]].as_py()] += [
                (first_word + number) * WORD_BITS + bit
                for number, word in enumerate(words)
                for bit in range(WORD_BITS)
                if word >> bit & 1
            ]
    assert [
        {"user": user, "positions": " ".join(map(str, sorted(numbers)))}
        for user, numbers in positions.items()
    ] == document_table("Bits")


def test_the_keys_equal_those_of_the_document(directory):
    key = ORDER.key(directory)
    for row in document_table("Keys"):
        numbers = key.decode(int(row["key"]))
        assert row == {
            "key": row["key"],
            "user": directory.user_names[numbers["user"]].as_py(),
            "kind": sorted(KINDS)[numbers["rule"]],
            "namespace": directory.namespace_names[numbers["namespace"]].as_py(),
        }


def test_the_result_equals_that_of_the_document(batch, directory):
    broadcast = LocalBroadcast(directory.to_dict())
    columns = {"user": "user", "kind": sorted(KINDS), "namespace": "namespace", "visible": "gained"}
    merge = merge_sums(ORDER, partial(sum_rows, columns), broadcast)
    result = merge(pack_sums(EVALUATION.rules, ORDER, broadcast)(iter([batch])))
    assert [
        {name: str(value) for name, value in row.items()} for rows in result for row in rows.to_pylist()
    ] == document_table("Result")
