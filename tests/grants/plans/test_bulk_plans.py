"""Test bulk plans for the entities inside a container, and for selected entities."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.services import ensure_entities
from entities.vocabulary import Privilege, VocabularyError
from grants.errors import GrantError, PlanError, StaleBase
from grants.models import Plan
from grants.plans.create import ITEMS_PER_BATCH
from grants.plans.sources.bulk import (
    MAX_PRINCIPALS,
    MAX_SELECTED,
    parse_bulk_change,
    selection_plan,
    subtree_plan,
)
from grants.plans.staleness import invalidating_line
from grants.plans.stranding import stranded_entities
from tests.support.authors import COMMAND, administrator, all_grants, database_state
from tests.support.cast import SALES
from tests.support.changes import (
    apply_plan,
    change_grants,
    create_inverse,
    delete_entity,
    items_of,
    register_entity,
    renew_plan,
    revoke_grant,
)

pytestmark = pytest.mark.usefixtures("cast")

ORDERS, CUSTOMERS = "dataset:sales.orders", "dataset:sales.customers"
SALES_NAMESPACE = parse_address("namespace:sales")


def bulk_change(verb="grant", principals=("user:out",), privileges=("READ",)):
    return parse_bulk_change(verb=verb, principals=principals, privileges=privileges)


def create_subtree_plan(change=None, within=SALES_NAMESPACE, author=COMMAND, **scope):
    return subtree_plan.create(author=author, change=change or bulk_change(), within=within, **scope)


def create_selection_plan(*addresses, change=None, author=COMMAND):
    return selection_plan.create(
        author=author, change=change or bulk_change(), addresses=map(parse_address, addresses)
    )


def addresses_of(plan):
    return {str(row.address) for row in plan.items.all()}


def test_a_subtree_plan_covers_the_namespace_and_the_live_entities_inside_it_only():
    before = database_state()
    plan = create_subtree_plan(author=administrator())
    assert addresses_of(plan) == set(SALES)
    assert (plan.effect["grants"], plan.effect["already"], plan.effect["principals"]) == (6, 0, 1)
    assert plan.title == "Grant READ to user:out on namespace:sales and everything in it"
    assert database_state()[1:4] == before[1:4]


def test_a_subtree_plan_covers_only_the_selected_kinds_and_the_container_only_on_request():
    assert addresses_of(create_subtree_plan(kinds=["dataset"], itself=False)) == {ORDERS, CUSTOMERS}
    assert addresses_of(create_subtree_plan(kinds=[], itself=True)) == {"namespace:sales"}
    assert addresses_of(create_subtree_plan(kinds=["program"], itself=True)) == {
        "namespace:sales",
        "program:sales.shop.workflow.daily",
    }
    assert addresses_of(create_subtree_plan(within=parse_address("application:sales.shop"))) == {
        "application:sales.shop",
        "program:sales.shop.workflow.daily",
    }
    namespaces = create_subtree_plan(within=parse_address("instance:cdap"), kinds=["namespace"], itself=False)
    assert addresses_of(namespaces) == {"namespace:sales", "namespace:hr"}
    assert addresses_of(create_subtree_plan(within=parse_address("instance:cdap"))) == {
        *SALES,
        "namespace:hr",
        "dataset:hr.salaries",
        "instance:cdap",
    }


def test_existing_grants_are_skipped():
    both = bulk_change(principals=["user:dee", "group:operators"], privileges=["WRITE", "READ"])
    plan = create_subtree_plan(both, kinds=["dataset"], itself=False)
    assert items_of(plan) == [
        ("grant", "user:dee", CUSTOMERS, "READ"),
        ("grant", "user:dee", CUSTOMERS, "WRITE"),
        ("grant", "user:dee", ORDERS, "WRITE"),
        ("grant", "group:operators", CUSTOMERS, "READ"),
        ("grant", "group:operators", CUSTOMERS, "WRITE"),
        ("grant", "group:operators", ORDERS, "READ"),
        ("grant", "group:operators", ORDERS, "WRITE"),
    ]
    assert plan.title == "Grant READ, WRITE to user:dee and 1 more on datasets in namespace:sales"
    with pytest.raises(
        PlanError, match="nothing to grant on namespace:sales and everything in it: all of these grants exist"
    ):
        create_subtree_plan(bulk_change(principals=["user:ned"], privileges=["ADMIN"]))


def test_a_revoking_plan_covers_grants_on_deleted_and_planned_addresses():
    revocation = bulk_change("revoke", ["user:ned", "user:dee", "group:operators"], list(Privilege))
    plan = create_subtree_plan(revocation)
    assert {(principal, address) for _, principal, address, _ in items_of(plan)} == {
        *(("user:ned", address) for address in SALES),
        ("user:dee", ORDERS),
        ("user:dee", "dataset:sales.legacy"),
        ("group:operators", "program:sales.shop.workflow.daily"),
        ("group:operators", "dataset:sales.forecast"),
    }
    assert (plan.effect["revokes"], plan.effect["stranded_none"]) == (10, 6) and len(
        stranded_entities(plan, max_rows=10)
    ) == 6
    before = all_grants()
    apply_plan(plan)
    assert all_grants() == {("user:ina", ORDERS, "READ")}
    apply_plan(create_inverse(plan))
    assert all_grants() == before


def test_a_selection_plan_has_each_selected_entity_once():
    plan = create_selection_plan(
        CUSTOMERS, "dataset:hr.salaries", CUSTOMERS, change=bulk_change(principals=["user:dee", "user:dee"])
    )
    assert items_of(plan) == [
        ("grant", "user:dee", "dataset:hr.salaries", "READ"),
        ("grant", "user:dee", CUSTOMERS, "READ"),
    ]
    assert plan.title == "Grant READ to user:dee on 2 selected entities"
    with pytest.raises(
        PlanError, match="there is nothing to grant on 1 selected entity: all of these grants exist"
    ):
        create_selection_plan(ORDERS, change=bulk_change(principals=["user:dee"]))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("dataset:sales.legacy", "is deleted, and only live"),
        ("dataset:sales.forecast", "is planned, and only live"),
        ("dataset:sales.nothing", "is not registered, and only live"),
    ],
)
def test_a_selection_plan_accepts_live_entities_only(address, words):
    with pytest.raises(PlanError, match=f"{address} {words}"):
        create_selection_plan(ORDERS, address)
    assert not Plan.objects.exists()


@pytest.mark.parametrize(
    ("create", "words"),
    [
        (lambda: bulk_change("take"), "neither granting nor revoking"),
        (lambda: bulk_change(principals=[]), "no principal is named"),
        (lambda: bulk_change(principals=["out"]), "not a principal"),
        (lambda: bulk_change(privileges=[]), "no privilege is selected"),
        (lambda: bulk_change(privileges=["read"]), "not a privilege"),
        (
            lambda: bulk_change(principals=[f"user:{n}" for n in range(MAX_PRINCIPALS + 1)]),
            "101 principals are named, and 100 are",
        ),
        (
            lambda: create_subtree_plan(bulk_change(principals=["user:x", "group:y"])),
            "group:y, user:x do not exist",
        ),
        (
            lambda: create_selection_plan(ORDERS, change=bulk_change("revoke", ["user:x"])),
            "user:x does not exist",
        ),
        (
            lambda: create_subtree_plan(within=parse_address(ORDERS)),
            "dataset:sales.orders is not a container",
        ),
        (
            lambda: create_subtree_plan(within=parse_address("namespace:nowhere")),
            "namespace:nowhere is not registered",
        ),
        (
            lambda: create_subtree_plan(kinds=["namespace"]),
            "namespace:sales cannot contain entities of kind namespace",
        ),
        (lambda: create_subtree_plan(kinds=[], itself=False), "no kind is selected"),
        (lambda: create_selection_plan(), "no entity is selected"),
        (
            lambda: create_selection_plan(*(f"dataset:sales.d{n}" for n in range(MAX_SELECTED + 1))),
            "501 entities are selected, and 500 are allowed",
        ),
    ],
)
def test_an_invalid_bulk_change_is_refused_with_a_reason_and_creates_no_plan(create, words):
    with pytest.raises((GrantError, VocabularyError), match=words):
        create()
    assert not Plan.objects.exists()


def add_grants(*items):
    specs = [(principal, parse_address(address), privilege) for principal, address, privilege in items]
    change_grants(grant=specs)


def test_a_new_live_entity_makes_a_subtree_plan_stale_but_not_a_selection_plan():
    whole, few = create_subtree_plan(), create_selection_plan(ORDERS)
    register_entity("dataset:sales.new")
    with pytest.raises(StaleBase):
        apply_plan(whole)
    assert invalidating_line(few) is None
    renewed = renew_plan(whole)
    assert addresses_of(renewed) == {*SALES, "dataset:sales.new"} and renewed.title == whole.title


def test_a_new_live_entity_in_any_namespace_makes_a_plan_over_the_instance_stale():
    plan = create_subtree_plan(
        bulk_change("revoke", ["user:ned"], ["ADMIN"]), within=parse_address("instance:cdap")
    )
    assert not any(address.endswith("hr.salaries") for address in addresses_of(plan))
    add_grants(("user:out", "dataset:hr.salaries", "READ"))
    assert invalidating_line(plan) is None
    register_entity("dataset:hr.new")
    assert invalidating_line(plan).entity == "dataset:hr.new"


def test_a_plan_is_stale_when_a_skipped_grant_was_revoked():
    plan = create_selection_plan(ORDERS, CUSTOMERS, change=bulk_change(principals=["user:dee"]))
    assert addresses_of(plan) == {CUSTOMERS}
    revoke_grant("user:dee", ORDERS, "READ")
    assert invalidating_line(plan).principal == "user:dee"
    assert addresses_of(renew_plan(plan)) == {CUSTOMERS}


def test_a_renewed_selection_plan_has_only_entities_that_are_still_live():
    plan = create_selection_plan(ORDERS, CUSTOMERS)
    delete_entity(CUSTOMERS)
    assert invalidating_line(plan).entity == CUSTOMERS
    renewed = renew_plan(plan)
    assert (
        addresses_of(renewed) == {ORDERS} and renewed.title == "Grant READ to user:out on 1 selected entity"
    )


@pytest.mark.parametrize("verb", ["grant", "revoke"])
def test_the_number_of_statements_grows_by_batch_not_by_entity(verb):
    def statements(first, last):
        addresses = [parse_address(f"dataset:sales.more{number}") for number in range(first, last)]
        ensure_entities(states=dict.fromkeys(addresses, "live"))
        change_grants(grant=[("user:ned", address, "READ") for address in addresses])
        with CaptureQueriesContext(connection) as captured:
            create_subtree_plan(bulk_change(verb, ["user:out" if verb == "grant" else "user:ned"]))
        return len(captured)

    few, many = statements(0, 3), statements(3, 300)
    assert many == few <= 20
    assert statements(300, ITEMS_PER_BATCH + 1) <= few + 5
