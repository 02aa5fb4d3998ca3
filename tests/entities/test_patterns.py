"""Test patterns of addresses: what can be written, what they match, and what they reveal."""

import itertools
import random
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.address import Address, AddressError, address_or_none, parse_address, parse_grantable
from entities.models import PATTERN, Entity
from entities.patterns import has_patterns, matches, matches_sql, pairs_about_sql, reveals, reveals_sql
from tests.entities.test_address import EXAMPLES


def refusal(text, parse=parse_grantable):
    """Return the error message for an invalid pattern."""
    with pytest.raises(AddressError) as caught:
        parse(text)
    return str(caught.value)


# Written form
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "dataset:*",
        "namespace:*",
        "dataset:a.**?",
        "dataset:sal?s.*",
        "dataset:*.ds1",
        "artifact:sales.etl*.v?",
        "application:sales.*",
        "program:sales.*",
        "program:*.*.workflow.*",
        "program:sales.orders.w*.daily",
        "instance:*",
        "kerberosprincipal:etl/*@REALM",
        "dataset_module:sales.co.cask.*$?",
    ],
)
def test_a_pattern_is_kept_as_it_is_written(text):
    pattern = parse_grantable(text)
    assert str(pattern) == text
    assert pattern.is_pattern
    assert pattern.parent is None and pattern.namespace is None and pattern.ancestors == []


def test_kinds_and_types_of_programs_are_read_in_any_case():
    assert str(parse_grantable("DataSet:Sales.*")) == "dataset:Sales.*"
    assert str(parse_grantable("program:Sales.*.WorkFlow.Daily")) == "program:Sales.*.workflow.Daily"
    assert str(parse_grantable("program:Sales.*.WORK*.Daily")) == "program:Sales.*.work*.Daily"


@pytest.mark.parametrize("text", [example[0] for example in EXAMPLES.values()])
def test_an_address_can_be_granted_as_before(text):
    assert parse_grantable(text) == parse_address(text)
    assert not parse_address(text).is_pattern


@pytest.mark.parametrize("text", ["dataset:*", "dataset:sales.order?", "namespace:*", "dataset:a.**?"])
def test_everything_else_needs_one_address_and_says_so(text):
    assert address_or_none(text) is None
    assert refusal(text, parse_address).startswith(
        f"`{text}` is a pattern, because it contains `*` or `?`: grants can be on a pattern, "
        "but here one address is needed, such as "
    )


def test_a_pattern_that_no_address_can_match_is_refused():
    assert "matches nothing" in refusal("namespace:sales.*")
    assert "matches nothing" in refusal("application:sales.orders.*")
    assert "matches nothing" in refusal("program:sales.orders.workflow.daily.*")
    assert "the part `sales.or ders`" in refusal("dataset:sales.or ders*")
    assert "the part `a$b`" in refusal("stream:sales.a$b*")
    assert "is not a kind of entity" in refusal("*:sales.orders")
    assert "is not an address" in refusal("*")
    assert "has 601 characters" in refusal(f"dataset:{'a' * 600}*")


# Matches
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "address", "is_match"),
    [
        ("dataset:sales.*", "dataset:sales.orders", True),
        ("dataset:sales.*", "dataset:sales.orders.by.day", True),
        ("dataset:sales.*", "dataset:sales2.orders", False),
        ("dataset:sales.*", "stream:sales.orders", False),
        ("dataset:*", "dataset:sales.orders", True),
        ("dataset:s*s.o*", "dataset:sales.x.s.o", True),
        ("dataset:sales.order?", "dataset:sales.orders", True),
        ("dataset:sales.order?", "dataset:sales.order", False),
        ("dataset:Sales.*", "dataset:sales.orders", False),
        ("dataset:sales_?.*", "dataset:salesx1.a", False),
        ("dataset:sales_?.*", "dataset:sales_1.a", True),
        ("program:*.daily", "program:sales.orders.workflow.daily", True),
        ("kerberosprincipal:e[tl]/*%", "kerberosprincipal:e[tl]/host%", True),
        ("kerberosprincipal:e[tl]/*", "kerberosprincipal:et/host", False),
        ("kerberosprincipal:a\\*", "kerberosprincipal:a\\b", True),
        ("kerberosprincipal:a\\_*", "kerberosprincipal:a_b", False),
    ],
)
def test_a_pattern_matches_whole_addresses_of_its_kind(pattern, address, is_match):
    assert matches(parse_grantable(pattern), parse_address(address)) == is_match


@pytest.mark.parametrize(
    ("pattern", "container", "is_revealed"),
    [
        ("dataset:sales.*", "namespace:sales", True),
        ("dataset:sales.*", "namespace:sales2", False),
        ("dataset:sales*", "namespace:sales2", True),
        ("dataset:*.ds1", "namespace:anything", True),
        ("dataset:*", "namespace:anything", True),
        ("dataset:sal?s", "namespace:sal", True),
        ("dataset:sales?", "namespace:sales", False),
        ("program:sales.o*", "application:sales.orders", True),
        ("program:sales.o*", "application:sales.stock", False),
        ("program:sales.o*", "namespace:sales", True),
        ("dataset:sales.o*", "application:sales.orders", False),
        ("namespace:*", "namespace:sales", False),
    ],
)
def test_a_pattern_reveals_the_containers_that_its_leading_parts_match(pattern, container, is_revealed):
    assert reveals(parse_grantable(pattern), parse_address(container)) == is_revealed


def _random_text(dice, characters, length):
    return "".join(dice.choice(characters) for _ in range(dice.randint(1, length)))


def test_a_pattern_matches_like_a_regular_expression():
    dice = random.Random(1)
    for _ in range(20_000):
        pattern, key = _random_text(dice, "ab.*?", 7), _random_text(dice, "ab.", 8)
        expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
        expected = re.fullmatch(expression, key) is not None
        assert matches(Address("dataset", pattern), Address("dataset", key)) == expected, (pattern, key)


def test_a_pattern_reveals_exactly_the_containers_with_an_address_that_it_can_match():
    inside = ["".join(letters) for n in (1, 2, 3, 4) for letters in itertools.product("ab.", repeat=n)]
    dice = random.Random(2)
    for _ in range(1_500):
        pattern, name = Address("dataset", _random_text(dice, "ab.*?", 5)), _random_text(dice, "ab", 3)
        expected = any(matches(pattern, Address("dataset", f"{name}.{rest}")) for rest in inside)
        assert reveals(pattern, Address("namespace", name)) == expected, (pattern, name)


@pytest.mark.django_db
def test_the_database_matches_and_reveals_like_python():
    dice = random.Random(3)
    pairs = [
        (_random_text(dice, "ab._%\\[]*?", 6), _random_text(dice, "ab._%\\[]", 6)) for _ in range(3_000)
    ] + [(_random_text(dice, "aB.*?", 6), _random_text(dice, "aB.", 5)) for _ in range(3_000)]
    for begin in range(0, len(pairs), 400):
        batch = pairs[begin : begin + 400]
        rows = ", ".join(["(CAST(%s AS text), CAST(%s AS text))"] * len(batch))
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH r(p, k) AS (VALUES {rows}), "
                "p AS (SELECT 'dataset' AS kind, p AS key, k FROM r), "
                "d AS (SELECT 'dataset' AS kind, k AS key FROM r), n AS (SELECT 'namespace' AS kind, k AS key FROM r) "
                f"SELECT p.key, p.k, {matches_sql('p', 'd')}, {reveals_sql('p', 'n')} "
                "FROM p JOIN d ON d.key = p.k JOIN n ON n.key = p.k",
                [text for pair in batch for text in pair],
            )
            for pattern, key, is_match, is_revealed in cursor.fetchall():
                dataset, namespace = Address("dataset", pattern), Address("namespace", key)
                assert bool(is_match) == matches(dataset, Address("dataset", key)), (pattern, key)
                assert bool(is_revealed) == reveals(dataset, namespace), (pattern, key)


@pytest.mark.django_db
def test_the_patterns_about_new_addresses_are_found_without_comparing_all():
    dice = random.Random(4)
    patterns = {(kind, _random_text(dice, "ab.*?", 7)) for kind in ("dataset", "program") for _ in range(400)}
    patterns |= {("dataset", "a.b*"), ("program", "a.b.*"), ("program", "a?b.*")}
    addresses = {
        (kind, ".".join(_random_text(dice, "ab", 2) or "a" for _ in range(parts)))
        for kind, parts in (("namespace", 1), ("application", 2), ("dataset", 2), ("dataset", 3))
        for _ in range(30)
    }
    Entity.rows.bulk_create(
        [
            *(Entity(kind=kind, key=key, state=PATTERN) for kind, key in patterns if {"*", "?"} & set(key)),
            *(Entity(kind=kind, key=key) for kind, key in addresses),
        ]
    )
    states = dict(Entity.rows.values_list("pk", "state"))
    by_pk = {row.pk: row.address for row in Entity.rows.all()}
    new = [pk for pk, state in states.items() if state != PATTERN]
    chosen = ", ".join(map(str, new[::2]))
    with connection.cursor() as cursor:
        cursor.execute(pairs_about_sql(f"e.id IN ({chosen})"))
        found = cursor.fetchall()
    expected = {
        (pattern, pk)
        for pattern, state in states.items()
        if state == PATTERN
        for pk in new[::2]
        if matches(by_pk[pattern], by_pk[pk]) or reveals(by_pk[pattern], by_pk[pk])
    }
    assert len(found) == len(set(found)) and set(found) == expected
    assert {by_pk[pk].kind for _, pk in expected} == {"namespace", "application", "dataset"}


@pytest.mark.django_db
def test_whether_there_are_patterns_is_read_from_an_index_in_prepared_statements_too():
    assert not has_patterns()
    Entity.rows.create(
        kind="dataset", key="sales.*", state=PATTERN, created_at=timezone.now(), changed_at=timezone.now()
    )
    with CaptureQueriesContext(connection) as queries:
        assert has_patterns()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"PREPARE patterns AS {queries[0]['sql']}")
            cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            cursor.execute("EXPLAIN EXECUTE patterns")
            assert "entity_not_live" in str(cursor.fetchall())
