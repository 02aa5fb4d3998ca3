"""Test creating, applying, discarding, renewing and undoing plans."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from analytics.regrant_plans import regrant_plan
from entities.address import parse_address
from entities.models import Entity
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.changes.entities import describe_entity
from grants.errors import GrantError, NotAdministrator, PlanError, StaleBase
from grants.journal import Author, current_revision, first_break
from grants.models import Plan, PlanState, User
from grants.plans.counts import PrincipalEffects, changing_items
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, store_plan
from grants.plans.renew import SOURCES
from grants.plans.sources.answer import answer_plan
from grants.plans.sources.change_file import file_plan
from grants.plans.sources.changes import change_set_plan
from grants.plans.sources.copy import copy_plan
from grants.plans.sources.ghosts import selected_ghost_plan
from grants.plans.sources.members import members_plan
from grants.plans.sources.readiness import readiness_plan
from grants.plans.staleness import invalidating_line
from grants.plans.stranding import stranded_entities
from tests.support.authors import (
    COMMAND,
    administrator,
    all_grants,
    author_with,
    database_state,
    entity_states,
    lines_after,
)
from tests.support.changes import (
    add_grant,
    add_member,
    apply_plan,
    change_grants,
    create_inverse,
    create_plan_from_changes,
    discard_plan,
    grants_and_revocations,
    register_entity,
    renew_plan,
    set_user_active,
)

pytestmark = pytest.mark.usefixtures("cast")

ORDERS, CUSTOMERS = "dataset:sales.orders", "dataset:sales.customers"
NO_MEMBERS = {
    "groups": 0,
    "joins": 0,
    "leaves": 0,
    "activations": 0,
    "deactivations": 0,
    "removals": 0,
    "users": 0,
    "registrations": 0,
    "recreations": 0,
    "deletions": 0,
    "periods_removed": 0,
}


def create_sample_plan(author=COMMAND, **changes):
    changes = changes or {
        "grant": [
            ("user:out", ORDERS, "READ"),
            ("user:dee", ORDERS, "READ"),
            ("group:operators", "dataset:sales.new", "READ"),
        ],
        "revoke": [("user:ned", CUSTOMERS, "ADMIN"), ("user:out", CUSTOMERS, "READ")],
    }
    return create_plan_from_changes(author=author, **changes)


def test_creating_a_plan_changes_no_grant_and_keeps_the_items_in_order():
    before = database_state()
    plan = create_sample_plan(administrator())
    assert database_state()[1:4] == before[1:4]
    rows = [
        (row.position, row.verb, row.principal, str(row.address), row.privilege, row.is_noop)
        for row in plan.items.order_by("position")
    ]
    assert rows == [
        (1, "grant", "user:out", ORDERS, "READ", False),
        (2, "grant", "user:dee", ORDERS, "READ", True),
        (3, "grant", "group:operators", "dataset:sales.new", "READ", False),
        (4, "revoke", "user:ned", CUSTOMERS, "ADMIN", False),
        (5, "revoke", "user:out", CUSTOMERS, "READ", True),
    ]
    assert plan.effect == NO_MEMBERS | {
        "grants": 2,
        "revokes": 1,
        "already": 2,
        "principals": 3,
        "planned": 1,
        "stranded_none": 1,
        "stranded_one": 0,
    }
    assert (plan.title, plan.origin, plan.state, plan.base_revision) == (
        "Grant 3 and revoke 2",
        "change-set",
        "proposed",
        # the line about its creation follows
        current_revision() - 1,
    )


def test_applying_a_plan_makes_all_changes_and_journals_them_with_the_reason():
    plan, before = create_sample_plan(), current_revision()
    plan = apply_plan(plan)
    assert (plan.state, plan.decided_by, plan.reason, plan.revision) == (
        "applied",
        "a command",
        "because",
        current_revision(),
    )
    assert plan.effect | {"stranded_none": 1} == NO_MEMBERS | {
        "grants": 2,
        "revokes": 1,
        "already": 2,
        "principals": 3,
        "planned": 1,
        "stranded_none": 1,
        "stranded_one": 0,
    }
    assert lines_after(before) == [
        ("revoke", "user:ned", CUSTOMERS, "ADMIN", f"plan {plan.pk}"),
        ("plan", "", "dataset:sales.new", "", ""),
        ("grant", "user:out", ORDERS, "READ", f"plan {plan.pk}"),
        ("grant", "group:operators", "dataset:sales.new", "READ", f"plan {plan.pk}"),
        ("plan-apply", "", "", "", f"plan {plan.pk}: Grant 3 and revoke 2"),
    ]
    assert ("user:out", ORDERS, "READ") in all_grants() and entity_states()["dataset:sales.new"] == "planned"
    assert first_break() is None


def test_an_applied_or_discarded_plan_cannot_be_applied_or_discarded_again():
    applied, discarded = create_sample_plan(), create_sample_plan()
    apply_plan(applied)
    discard_plan(discarded)
    before = database_state()
    for plan in (applied, discarded):
        for decide in (apply_plan, discard_plan):
            with pytest.raises(PlanError, match="was already .* by a command"):
                decide(plan)
    assert database_state() == before


def test_applying_needs_a_reason():
    plan = create_sample_plan()
    with pytest.raises(PlanError, match="the reason is missing"):
        apply_plan(plan, author=Author("a command", reason="  "))


@pytest.mark.parametrize("role", ["auditor", "ordinary"])
def test_only_administrators_create_apply_and_discard_plans(role):
    plan, applied = create_sample_plan(), create_sample_plan(grant=[("user:out", CUSTOMERS, "READ")])
    author = author_with(role)
    before = database_state()
    for attempt in (
        lambda: create_sample_plan(author),
        lambda: apply_plan(plan, author=author),
        lambda: discard_plan(plan, author=author),
        lambda: renew_plan(plan, author=author),
    ):
        with pytest.raises(NotAdministrator):
            attempt()
    assert database_state() == before
    apply_plan(applied)
    with pytest.raises(NotAdministrator):
        create_inverse(applied, author=author)
    assert Plan.objects.count() == 2 and Plan.objects.get(pk=plan.pk).is_proposed


@pytest.mark.parametrize("role", ["auditor", "ordinary"])
def test_only_administrators_create_plans_from_a_source(role):
    """The author is checked before the arguments are read, so errors in them reveal nothing."""
    author = author_with(role)
    others = change_set_plan, file_plan, members_plan, selected_ghost_plan, answer_plan, regrant_plan
    for source in (*SOURCES.values(), *others):
        with pytest.raises(NotAdministrator):
            source.create(author)


RELEVANT_CHANGES = {
    "a grant on an entity of the plan": lambda: add_grant("user:grp", ORDERS, "READ"),
    "the state of an entity of the plan": lambda: (
        Entity.objects.get(key="sales.orders") and register_entity("dataset:sales.new")
    ),
    "the state of a user of the plan": lambda: set_user_active("out", active=False),
    "a member of a group of the plan": lambda: add_member("ned", "operators"),
}
UNRELATED_CHANGES = {
    "a grant in another namespace": lambda: add_grant("user:out", "dataset:hr.salaries", "READ"),
    "a grant on another entity of the namespace": lambda: add_grant(
        "user:grp", "artifact:sales.etl-1.0", "READ"
    ),
    "a description": lambda: describe_entity(author=COMMAND, address=parse_address(ORDERS), description="x"),
    "the state of another user": lambda: set_user_active("aud", active=False),
}


@pytest.mark.parametrize("change", RELEVANT_CHANGES)
def test_a_stale_plan_is_refused(change):
    plan = create_sample_plan()
    RELEVANT_CHANGES[change]()
    before = database_state()
    with pytest.raises(
        StaleBase, match=r"data on which it depends has changed since: revision \d+ .*renew the plan"
    ) as stale:
        apply_plan(plan)
    assert (stale.value.base_revision, stale.value.revision) == (plan.base_revision, current_revision())
    assert database_state() == before and Plan.objects.get(pk=plan.pk).is_proposed


@pytest.mark.parametrize("change", UNRELATED_CHANGES)
def test_unrelated_changes_do_not_make_a_plan_stale(change):
    plan = create_sample_plan()
    UNRELATED_CHANGES[change]()
    assert apply_plan(plan).state == PlanState.APPLIED


def test_a_computed_plan_depends_on_the_whole_namespace():
    plan = readiness_plan.create(
        author=COMMAND, namespace=parse_address("namespace:sales"), user="dee", generation="final"
    )
    other = readiness_plan.create(
        author=COMMAND, namespace=parse_address("namespace:hr"), user="dee", generation="final"
    )
    register_entity("stream:sales.clicks")
    assert invalidating_line(plan).entity == "stream:sales.clicks" and invalidating_line(other) is None
    renewed = renew_plan(plan)
    plan.refresh_from_db()
    assert (plan.state, plan.reason, renewed.renewal_of) == ("discarded", f"renewed as {renewed}", plan)
    assert {str(row.address) for row in renewed.items.all()} - {
        str(row.address) for row in plan.items.all()
    } == {"stream:sales.clicks"}
    assert invalidating_line(renewed) is None


def test_names_with_dots_and_colons_are_matched_with_their_journal_lines():
    name = "user:a.b:c"
    User.objects.create(username="a.b:c")
    address = parse_address("kerberosprincipal:etl.one/host@REALM")
    plan = create_plan_from_changes(grant=[(name, address, "READ")])
    assert invalidating_line(plan) is None
    add_grant("user:out", address, "READ")
    assert invalidating_line(plan).entity == str(address)
    again = renew_plan(plan)
    set_user_active("a.b:c", active=False)
    assert invalidating_line(again).principal == name


def test_the_inverse_plan_undoes_only_the_changes_that_were_made():
    before = all_grants()
    plan = apply_plan(create_sample_plan())
    inverse = create_inverse(plan)
    assert inverse.inverse_of == plan and inverse.items.count() == 3 and inverse.effect["already"] == 0
    apply_plan(inverse)
    assert all_grants() == before
    again = create_inverse(inverse)
    assert [(row.verb, row.principal) for row in again.items.order_by("position")] == [
        (row.verb, row.principal) for row in changing_items(plan).order_by("position")
    ]


def test_a_plan_that_changed_nothing_or_was_not_applied_cannot_be_undone():
    plan = create_sample_plan()
    with pytest.raises(PlanError, match="is proposed: only an applied plan can be undone"):
        create_inverse(plan)
    nothing = create_sample_plan(grant=[("user:dee", ORDERS, "READ")])
    revision = current_revision()
    apply_plan(nothing)
    assert current_revision() == revision
    with pytest.raises(PlanError, match="changed nothing"):
        create_inverse(nothing)


def test_an_empty_plan_is_refused():
    with pytest.raises(PlanError, match="the plan is empty"):
        create_plan_from_changes()
    assert not Plan.objects.exists()


def test_a_plan_over_the_limit_is_refused_and_not_stored():
    changes = grants_and_revocations([("user:out", f"dataset:sales.new{n}", "READ") for n in range(3)])
    with pytest.raises(PlanError, match="more than 2 items, which is the limit"):
        store_plan(COMMAND, PlanOrigin.COPY, PlanDraft("new", changes, max_items=2))
    assert PlanDraft("new", changes).max_items == MAX_PLAN_ITEMS
    assert not Plan.objects.exists()


def test_gains_and_losses_of_each_principal_are_counted_by_kind():
    effects = PrincipalEffects(create_sample_plan())
    effects_by_principal = {
        effect.principal: (effect.gains, effect.losses, effect.members) for effect in effects[:10]
    }
    assert effects_by_principal == {
        "user:ned": ({}, {("dataset", Privilege.ADMIN): 1}, None),
        "user:out": ({("dataset", Privilege.READ): 1}, {}, None),
        "group:operators": ({("dataset", Privilege.READ): 1}, {}, 1),
    }
    assert list(effects_by_principal) == ["user:ned", "user:out", "group:operators"] and len(effects) == 3
    assert [effect.principal for effect in effects[1:2]] == ["user:out"]


def test_an_entity_is_stranded_when_it_loses_administrators_and_fewer_than_two_remain():
    group = Group.objects.create(name="owners")
    group.user_set.set(User.objects.filter(username__in=["dee", "grp", "ina"]))
    change_grants(
        grant=[
            ("group:owners", ORDERS, "ADMIN"),
            ("user:out", CUSTOMERS, "ADMIN"),
            ("user:ina", "artifact:sales.etl-1.0", "ADMIN"),
        ]
    )
    revoke = [
        ("user:ned", address, "ADMIN")
        for address in (ORDERS, CUSTOMERS, "artifact:sales.etl-1.0", "application:sales.shop")
    ]
    plan = create_plan_from_changes(revoke=revoke, grant=[("user:dee", "application:sales.shop", "ADMIN")])
    # orders keeps dee and grp through the group; dee takes over the application, of which there is one as
    # before
    assert [(str(row.address), row.admin_count) for row in stranded_entities(plan, max_rows=10)] == [
        ("artifact:sales.etl-1.0", 0),
        (CUSTOMERS, 1),
    ]
    assert (plan.effect["stranded_none"], plan.effect["stranded_one"]) == (1, 1)
    whole = create_plan_from_changes(revoke=[("group:owners", ORDERS, "ADMIN"), *revoke[:1]])
    assert [(str(row.address), row.admin_count) for row in stranded_entities(whole, max_rows=10)] == [
        (ORDERS, 0)
    ]
    one = create_plan_from_changes(revoke=[("group:owners", ORDERS, "ADMIN")])
    assert [(str(row.address), row.admin_count) for row in stranded_entities(one, max_rows=10)] == [
        (ORDERS, 1)
    ]


@pytest.mark.parametrize(
    "addresses",
    [
        ["dataset:new.a", "dataset:new.b"],
        ["program:new.app.spark.p", "application:new.app"],
        ["namespace:new", "stream:new.s", "stream:sales.s"],
    ],
)
def test_addresses_to_be_registered_are_counted_with_their_containers(addresses):
    plan = create_plan_from_changes(grant=[("user:out", address, "READ") for address in addresses])
    foretold, before = plan.effect["planned"], len(entity_states())
    assert apply_plan(plan).effect["planned"] == foretold == len(entity_states()) - before


def test_a_copy_has_only_grants_that_the_target_does_not_hold_directly():
    change_grants(grant=[("user:dee", CUSTOMERS, "ADMIN"), ("user:ned", "dataset:hr.salaries", "READ")])
    plan = copy_plan.create(author=COMMAND, source="user:ned", target="user:dee")
    assert {str(row.address) for row in plan.items.all()} == {
        "namespace:sales",
        ORDERS,
        "application:sales.shop",
        "program:sales.shop.workflow.daily",
        "artifact:sales.etl-1.0",
        "dataset:hr.salaries",
    }
    inside = copy_plan.create(
        author=COMMAND, source="user:ned", target="group:operators", within=parse_address("namespace:hr")
    )
    assert [(row.principal, str(row.address)) for row in inside.items.all()] == [
        ("group:operators", "dataset:hr.salaries")
    ]
    add_grant("user:ned", "dataset:hr.more", "READ")
    assert invalidating_line(plan).entity == "dataset:hr.more"
    assert renew_plan(plan).items.count() == 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": "user:ned", "target": "user:ned"}, "is both"),
        ({"source": "user:x", "target": "user:ned"}, "user:x does not exist"),
        ({"source": "user:ned", "target": "group:x"}, "group:x does not exist"),
        ({"source": "ned", "target": "user:dee"}, "not a principal"),
        ({"source": "user:out", "target": "user:dee"}, "nothing to copy"),
        (
            {"source": "user:ned", "target": "user:dee", "within": parse_address(ORDERS)},
            "neither a namespace nor an application",
        ),
    ],
)
def test_an_invalid_copy_is_refused_with_a_reason(arguments, words):
    with pytest.raises(GrantError, match=words):
        copy_plan.create(author=COMMAND, **arguments)
    assert not Plan.objects.exists()


def test_applying_takes_statements_by_batch_not_by_item():
    def statements(name, count):
        ensure_entities(
            states={parse_address(f"dataset:sales.{name}{number}"): "live" for number in range(count)}
        )
        plan = create_plan_from_changes(
            grant=[("user:out", f"dataset:sales.{name}{n}", "READ") for n in range(count)]
        )
        with CaptureQueriesContext(connection) as captured:
            apply_plan(plan)
        return len(captured)

    assert statements("few", 3) == statements("many", 300)
