"""Rows of bits for many users at once say what going through users and entities one by one says."""

import random

import pyarrow as pa
import pytest

from analytics.spark import verdicts
from analytics.spark.verdicts import EVERYWHERE, FACTS_APART, changes_counted, changes_spread

FACTS, ON_APPLICATIONS = 5, frozenset({3})
KINDS = ("dataset", "program", "stream")
HELD = pa.list_(pa.struct([("users", pa.list_(pa.int64())), ("held", pa.list_(pa.int64()))]))
RUNS = pa.list_(pa.struct([("kind", pa.string()), ("first", pa.int64()), ("count", pa.int64())]))
APPLICATIONS = pa.list_(pa.struct([("place", pa.int64()), ("positions", pa.list_(pa.int64()))]))


def requirement(dice, depth=2):
    word = dice.choice(("held", "all", "any")) if depth else "held"
    if word == "held":
        return word, tuple(dice.sample(range(FACTS), dice.randint(1, 2)))
    return word, tuple(requirement(dice, depth - 1) for _ in range(dice.randint(0, 2)))


def random_block(dice):
    """kinds, applications, holdings, as plain Python."""
    counts = [dice.randint(1, 150) for _ in range(dice.randint(1, 3))]
    runs = [(kind, sum(counts[:place]), count) for place, (kind, count) in enumerate(zip(KINDS, counts, strict=False))]
    size = sum(counts)
    applications = [(900 + number, sorted(dice.sample(range(size), dice.randint(1, min(size, 9))))) for number in range(3)]
    holdings = [(users, [place(dice, size) for _ in range(dice.randint(1, 6))])
                for users in [dice.sample(range(1, 12), dice.randint(1, 5)) for _ in range(dice.randint(0, 8))]]
    if dice.random() < 0.5:
        holdings.insert(dice.randint(0, len(holdings)), (None, [(dice.choice((0, 4)), EVERYWHERE)]))
    return runs, applications, holdings


def place(dice, size):
    fact = dice.randrange(FACTS)
    if fact in ON_APPLICATIONS:
        return fact, 900 + dice.randrange(3)
    return fact, EVERYWHERE if dice.random() < 0.1 else dice.randrange(size)


def met(asked, true_facts):
    word, parts = asked
    if word == "held":
        return not true_facts.isdisjoint(parts)
    return (all if word == "all" else any)(met(part, true_facts) for part in parts)


def changed(block, rules):
    """{(user, rule): (gained positions, lost positions)}; the user None holds nothing of its own."""
    runs, applications, holdings = block
    inside = dict(applications)
    found = {}
    for user in {None, *(user for users, _ in holdings if users for user in users)}:
        mine = [spot for users, held in holdings if users is None or user in users for spot in held]
        for number, (kind, before, after) in enumerate(rules):
            gained, lost = set(), set()
            for run_kind, first, count in runs:
                for position in range(first, first + count) if run_kind == kind else ():
                    true = {fact for fact, at in mine if at in (EVERYWHERE, position)
                            or fact in ON_APPLICATIONS and position in inside.get(at, ())}
                    if met(before, true) != met(after, true):
                        (gained if met(after, true) else lost).add(position)
            found[user, number] = gained, lost
    return found


def columns(blocks):
    """As Spark hands them over."""
    rows = [], [], []
    for runs, applications, holdings in blocks:
        rows[0].append([dict(zip(("kind", "first", "count"), run, strict=True)) for run in runs])
        rows[1].append([{"place": at, "positions": positions} for at, positions in applications])
        rows[2].append([{"users": users, "held": [fact * FACTS_APART + at - EVERYWHERE for fact, at in held]}
                        for users, held in holdings] or None)
    return [pa.array(column, data_type) for column, data_type in zip(rows, (RUNS, APPLICATIONS, HELD), strict=True)]


@pytest.mark.parametrize("rows_bytes", [1, 3_000, verdicts.ROWS_BYTES])
@pytest.mark.parametrize("seed", range(12))
def test_counts_and_positions_are_those_of_one_by_one(seed, rows_bytes, monkeypatch):
    monkeypatch.setattr(verdicts, "ROWS_BYTES", rows_bytes)
    dice = random.Random(seed)
    blocks = [random_block(dice) for _ in range(4)]
    rules = tuple((dice.choice(KINDS), requirement(dice), requirement(dice)) for _ in range(6))
    counted = changes_counted(rules, ON_APPLICATIONS)(*columns(blocks)).to_pylist()
    spread = changes_spread(rules, ON_APPLICATIONS)(*columns(blocks)).to_pylist()
    for block, counts, words in zip(blocks, counted, spread, strict=True):
        expected = changed(block, rules)
        nothing = {number: expected[None, number] for number in range(len(rules))}
        assert {(row["user_id"], row["rule"]): (row["gained"], row["lost"]) for row in counts} == {
            (user, rule): differs for (user, rule), (gained, lost) in expected.items()
            if any(differs := (len(gained) - (user is not None) * len(nothing[rule][0]),
                               len(lost) - (user is not None) * len(nothing[rule][1])))
        }
        assert {(row["user_id"], row["rule"], row["after"]): positions(row) for row in words} == {
            (user, rule, after): differing
            for (user, rule), both in expected.items()
            for after, own, without in zip((True, False), both, nothing[rule], strict=True)
            if (differing := own if user is None else own ^ without)
        }


def positions(row):
    words = enumerate(row["words"], start=row["first"])
    return {number * 64 + bit for number, word in words for bit in range(64) if word >> bit & 1}


def test_a_word_that_is_no_requirement_is_refused():
    block = columns([([("dataset", 0, 3)], [], [([1], [(0, 1)])])])
    with pytest.raises(ValueError, match="`most` is no requirement"):
        changes_counted((("dataset", ("any", ()), ("most", ())),), frozenset())(*block)
