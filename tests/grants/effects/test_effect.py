"""Test the effect of changes: totals, people, entities, rows, filters and the digest."""

from entities.address import parse_address, parse_grantable
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import ADMIN, READ, WRITE
from grants.change_set import Activate, Deactivate, Delete, Grant, Join, Recreate, Register, Revoke
from grants.effects.changes import StateChange, evaluable_changes
from grants.effects.effect import EffectRow, RowFilter, effect_of
from grants.effects.masks import BitCounter, bits_of
from grants.effects.purposes import AnswerQuestion, AnswerQuestions, DeleteNamespace, KeepPermissions
from grants.policies.catalogue import GENERATIONS
from grants.policies.levels import Level
from tests.support.changes import activate_generation, add_grant

FINAL, EXISTING = GENERATIONS["final"], GENERATIONS["existing"]
CUSTOMERS = parse_address("dataset:sales.customers")
ORDERS, SALES = parse_address("dataset:sales.orders"), parse_address("namespace:sales")


def test_a_grant_intends_the_decisions_about_its_address_and_nothing_else(cast):
    effect = effect_of([Grant("user:out", ORDERS, READ)], FINAL)
    rows = list(effect.rows())
    assert {row.user for row in rows} == {"out"} and all(row.after and not row.before for row in rows)
    assert {(row.entity, row.operation) for row in rows if not row.intended} == {
        ("namespace:sales", operation) for operation in ("list", "get", "search", "get-preferences")
    }
    assert EffectRow("out", "dataset:sales.orders", "read", False, True, True) in rows
    assert rows == sorted(rows)
    assert effect.summary == {"for": {"gained": len(rows) - 4, "lost": 0}, "beyond": {"gained": 4, "lost": 0}}
    assert [name for name, _ in effect.people] == ["out"] and effect.people[0][1] == effect.tally
    assert effect.entities[0][0] == SALES and effect.entities[0][1].gained_beyond == 4


def test_a_grant_on_a_namespace_changes_what_is_inside_where_the_rules_say_so(cast):
    change = Grant("group:operators", SALES, READ)
    rows = list(effect_of([change], EXISTING).rows())
    assert EffectRow("grp", "dataset:sales.orders", "read", False, True, False) in rows
    assert not [row for row in effect_of([change], FINAL).rows() if row.entity != "namespace:sales"]


def test_operations_that_need_no_grant_count_at_no_access_level(cast):
    fresh, clicks = parse_address("namespace:fresh"), parse_address("stream:hr.clicks")
    add_grant("user:dee", fresh, ADMIN)
    effect = effect_of([StateChange(fresh, State.LIVE)], FINAL)
    assert {row.operation for row in effect.rows() if row.user == "out"} == {
        "delete-all-streams",
        "delete-all-dataset-modules",
    }
    # of the four users of the tenant, dee included
    assert effect.figures.grantless == 8 and effect.levels[Level.ADMINISTERS].gained_for == 1
    administered = [
        count for count in effect.level_changes(["dee"])["dee"].gained_for if count.level == "administers"
    ]
    assert [count.is_partial for count in administered] == [False]
    assert not any(effect.level_changes(["out"])["out"])
    both = [StateChange(parse_address(text), State.LIVE) for text in ("namespace:new", "stream:new.clicks")]
    assert {row.operation for row in effect_of(both, FINAL).rows() if row.entity == "namespace:new"} == {
        "delete-all-dataset-modules"
    }
    # the first stream of a namespace takes from everybody what needed no grant, and ADMIN on it gives it again
    lost = effect_of([StateChange(clicks, State.LIVE)], FINAL)
    assert (lost.tally.lost, lost.figures.grantless, lost.levels) == (4, 4, {})
    ensure_entities(states={clicks: State.LIVE})
    given = effect_of([Grant("user:out", clicks, ADMIN)], FINAL)
    assert "delete-all-streams" in given.operation_names and given.figures.grantless == 0


def test_a_revocation_and_a_grant_that_change_nothing_have_no_effect(cast):
    changes = [
        Grant("user:ned", ORDERS, ADMIN),
        Revoke("user:out", ORDERS, READ),
        Grant("user:ina", ORDERS, WRITE),
        Grant("user:unknown", ORDERS, READ),
    ]
    effect = effect_of(changes, FINAL)
    assert not effect.has_effect and list(effect.rows()) == [] and effect.people == []


def test_the_creator_of_what_is_live_already_gains_nothing(cast):
    activate_generation("existing")
    legacy = parse_address("dataset:sales.legacy")

    def changed(*changes):
        return {row.user for row in effect_of(evaluable_changes(changes), EXISTING).rows()}

    assert changed(Register(ORDERS, "user:out")) == changed(Recreate(ORDERS, "user:out")) == set()
    assert "out" in changed(Recreate(legacy, "user:out"))
    assert "out" in changed(Delete(ORDERS), Recreate(ORDERS, "user:out"))


def test_a_new_namespace_is_shown_to_those_who_hold_something_about_its_contents(cast):
    fresh = parse_address("namespace:fresh")
    for pattern in ("dataset:f*", "stream:fresh.?"):
        add_grant("user:out", pattern, "READ")

    def who_gains_list(*changes):
        rows = effect_of(evaluable_changes(changes), FINAL).rows()
        return {row.user for row in rows if (row.entity, row.operation) == (str(fresh), "list")}

    assert who_gains_list(Register(fresh)) == {"out"}
    first, second = (
        Revoke("user:out", parse_grantable(pattern), READ) for pattern in ("dataset:f*", "stream:fresh.?")
    )
    assert who_gains_list(Register(fresh), first) == {"out"}
    assert who_gains_list(Register(fresh), first, second) == set()
    inside = parse_address("dataset:fresh.orders")
    changes = Register(fresh), Register(inside), Grant("user:dee", inside, READ)
    assert who_gains_list(*changes, first, second) == {"dee"}


def test_a_membership_and_an_activation_intend_all_they_change(cast):
    changes = [
        Join("out", "operators"),
        Activate("ina"),
        Deactivate("dee"),
        Grant("user:out", ORDERS, READ),
    ]
    effect = effect_of(changes, FINAL)
    by_user = {user: [row for row in effect.rows() if row.user == user] for user in ("out", "ina", "dee")}
    assert all(row.intended for row in effect.rows())
    assert not any(row.after for row in by_user["dee"]) and all(
        row.after for row in by_user["out"] + by_user["ina"]
    )


def test_the_purpose_of_a_question_and_a_readiness_is_only_what_they_name(cast):
    changes = [Grant("group:operators", ORDERS, ADMIN), Grant("group:operators", SALES, ADMIN)]
    read = effect_of(changes, FINAL, AnswerQuestion("grp", "truncate", ORDERS))
    assert [(row.user, row.entity, row.operation) for row in read.rows(RowFilter(purpose="for"))] == [
        ("grp", "dataset:sales.orders", "truncate")
    ]
    ready = effect_of(changes, FINAL, DeleteNamespace("grp", SALES))
    assert {(row.entity, row.operation) for row in ready.rows(RowFilter(purpose="for"))} == {
        ("dataset:sales.orders", "drop")
    }


def test_keeping_permissions_intends_what_the_other_generation_permits(cast):
    add_grant("user:out", SALES, READ)
    effect = effect_of([Grant("user:out", ORDERS, READ)], FINAL, KeepPermissions(EXISTING))
    assert EffectRow("out", "dataset:sales.orders", "read", False, True, True) in list(effect.rows())
    wider = effect_of([Grant("user:out", ORDERS, WRITE)], FINAL, KeepPermissions(EXISTING))
    beyond = {row.operation for row in wider.rows(RowFilter(purpose="beyond"))}
    # `list` needs a grant on the dataset in `existing` too, and `get` has no rule there
    assert {"write", "list", "get"} <= beyond and "read" not in beyond


def test_rows_are_filtered_counted_and_read_from_any_position(cast):
    effect = effect_of(
        [
            Grant("group:operators", ORDERS, ADMIN),
            Grant("user:out", ORDERS, READ),
            Revoke("user:dee", ORDERS, READ),
        ],
        FINAL,
    )
    rows = list(effect.rows())
    assert {row.user for row in rows} == {"dee", "grp", "out"}
    for where in (
        RowFilter(),
        RowFilter(user="grp"),
        RowFilter(entity="SALES.ORD"),
        RowFilter(operation="list"),
        RowFilter(change="lost"),
        RowFilter(purpose="beyond"),
        RowFilter(user="nobody"),
    ):
        expected = [
            row
            for row in rows
            if where.user in row.user
            and where.entity.lower() in row.entity
            and where.operation in ("", row.operation)
            and where.change in ("", "gained" if row.after else "lost")
            and where.purpose in ("", "for" if row.intended else "beyond")
        ]
        assert list(effect.rows(where)) == expected and effect.row_count(where) == len(expected)
        selected = effect.filtered_effect(where)
        assert list(selected.rows()) == expected and selected.tally.total == len(expected)
        assert [
            row for start in range(0, len(rows), 3) for row in list(effect.rows(where, start))[:3]
        ] == expected


def test_the_digest_changes_with_the_effect_only(cast):
    change = Grant("user:out", ORDERS, READ)
    digest = effect_of([change], FINAL).digest
    assert effect_of([change, Grant("user:ina", ORDERS, WRITE)], FINAL).digest == digest
    assert effect_of([change], EXISTING).digest != digest
    add_grant("user:out", "dataset:sales.customers", READ)
    # the namespace is visible already, so the same grant gives less
    assert effect_of([change], FINAL).digest != digest


def test_a_counter_counts_every_bit():
    masks = [0b1011, 0b1, 0b1001, 0, 0b1000] * 5
    counter = BitCounter()
    for mask in masks:
        counter.add(mask)
    counts = {bit: sum(mask >> bit & 1 for mask in masks) for bit in range(4)}
    assert counter.counts == {bit: count for bit, count in counts.items() if count}
    assert bits_of(counter.any) == [0, 1, 3]


def test_what_comes_with_a_grant_is_no_side_effect(cast):
    effect = effect_of([Grant("user:out", ORDERS, READ)], FINAL, AnswerQuestion("out", "read", ORDERS))
    assert effect.tally.gained_beyond == effect.attached_gains > 0 == effect.max_side_effects
    assert all(effect.is_attached(row) is not row.intended for row in effect.rows())
    assert {row.entity for row in effect.rows() if effect.is_attached(row)} == {str(SALES), str(ORDERS)}
    named = effect_of([Grant("user:out", ORDERS, READ)], FINAL)
    assert named.tally.gained_beyond == named.attached_gains > 0
    # the numbers of REST stay those beyond the purpose
    assert effect.summary["beyond"]["gained"] == effect.tally.gained_beyond


def test_what_the_purpose_does_not_need_stays_a_side_effect(cast):
    stronger = effect_of([Grant("user:out", ORDERS, ADMIN)], FINAL, AnswerQuestion("out", "list", ORDERS))
    unneeded = {
        row.operation for row in stronger.rows() if not row.intended and not stronger.is_attached(row)
    }
    assert (
        {"drop", "truncate"} <= unneeded
        and not {"get"} & unneeded
        and stronger.max_side_effects == len(unneeded)
    )
    elsewhere = [Grant("user:out", ORDERS, READ), Grant("user:ned", ORDERS, READ)]
    effect = effect_of(elsewhere, FINAL, AnswerQuestion("out", "read", ORDERS))
    others = {row.user for row in effect.rows() if not row.intended and not effect.is_attached(row)}
    assert others == {"ned"} and effect.max_side_effects > 0
    kept = effect_of([Grant("user:out", ORDERS, WRITE)], FINAL, KeepPermissions(EXISTING))
    assert kept.attached_gains == 0


def test_what_admin_gives_where_a_deletion_needs_it_is_no_side_effect(cast):
    program = parse_address("program:sales.shop.workflow.daily")
    effect = effect_of([Grant("user:dee", program, ADMIN)], FINAL, DeleteNamespace("dee", SALES))
    assert effect.attached_gains == effect.tally.gained_beyond > 0 == effect.max_side_effects


def test_a_part_that_needs_more_does_not_cover_the_other_parts(cast):
    wanted = frozenset({(ORDERS, "list"), (CUSTOMERS, "drop")})
    changes = [Grant("user:out", ORDERS, ADMIN), Grant("user:out", CUSTOMERS, ADMIN)]
    effect = effect_of(changes, FINAL, AnswerQuestions("out", wanted))
    unneeded = {
        (row.entity, row.operation)
        for row in effect.rows()
        if not row.intended and not effect.is_attached(row)
    }
    assert {entity for entity, _ in unneeded} == {str(ORDERS)}
    assert (str(ORDERS), "drop") in unneeded and effect.max_side_effects == len(unneeded)
