"""Each endpoint takes a fixed number of queries for any amount of data."""

import pytest
from django.db import connection

from entities.address import Address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from tests.support.changes import add_group, add_member, add_user, change_grants

pytestmark = pytest.mark.django_db

TOKEN, OWNER, ROWS, GENERATION, REVISION, PARENT, QUESTION, STATES, STEWARDSHIPS = [1] * 9
# on PostgreSQL the journal query sets plan_cache_mode in a separate transaction
PLAN_CACHE_MODE = 3 if connection.vendor == "postgresql" else 0
CALLER = TOKEN + OWNER
READS = [
    ("/entities", {}, ROWS),
    ("/entities", {"parent": "namespace:sales"}, PARENT + ROWS),
    ("/entities", {"q": "d1"}, ROWS),
    ("/entities", {"within": "namespace:sales"}, PARENT + ROWS),
    ("/entities/dataset:sales.orders", {}, ROWS),
    ("/users", {}, ROWS),
    ("/users/ned", {}, ROWS),
    ("/groups", {}, ROWS),
    ("/groups/operators", {}, ROWS),
    ("/members", {}, ROWS),
    ("/grants", {"limit": 1_000}, REVISION + 2 * ROWS),
    ("/grants", {"entity": "dataset:sales.d1"}, REVISION + 2 * ROWS),
    ("/grants", {"principal": "group:many_grants"}, REVISION + ROWS),
    ("/grants", {"principal": "user:ned", "through_groups": "true", "limit": 1_000}, REVISION + 2 * ROWS),
    ("/policies", {}, GENERATION),
    ("/policies/final", {}, GENERATION),
    ("/policies/active", {}, GENERATION),
    ("/analyses", {}, 0),
    ("/plans", {}, ROWS),
    ("/forecasts/deletion", {"namespace": "namespace:sales", "user": "ned", "generation": "final"}, 13),
    ("/runs", {}, ROWS),
    ("/schedules", {}, ROWS),
    ("/schedules/visibility", {}, ROWS),
    ("/journal", {"limit": 1_000}, ROWS + PLAN_CACHE_MODE),
]


@pytest.fixture
def many_grants(cast):
    addresses = [Address("dataset", f"sales.d{number}") for number in range(60)]
    ensure_entities(states=dict.fromkeys(addresses, "live"))
    add_group("many_grants")
    for number in range(20):
        add_user(f"user{number}")
        add_member(f"user{number}", "many_grants")
    add_member("ned", "many_grants")
    change_grants(
        grant=[
            (principal, address, Privilege.READ)
            for principal in ("user:ned", "group:many_grants")
            for address in addresses
        ]
    )


ORDINARY_READS = [
    ("/entities", {}, GENERATION + STEWARDSHIPS + ROWS),
    ("/entities/dataset:sales.d1", {}, GENERATION + STEWARDSHIPS + ROWS),
    ("/grants", {"limit": 1_000}, REVISION + 2 * ROWS),
]


@pytest.mark.parametrize(("name", "reads"), [("ada", READS), ("ned", ORDINARY_READS)])
def test_the_queries_of_a_read_do_not_depend_on_the_amount_of_data(
    by_token, many_grants, django_assert_max_num_queries, name, reads
):
    rest = by_token(name, "read")
    # the first use of a token writes its time of last use
    rest.get("/analyses")
    for path, query, most in reads:
        with django_assert_max_num_queries(CALLER + most):
            assert rest.get(path, **query).status_code == 200, path


def test_anonymous_requests_take_no_queries(by_session, many_grants, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert by_session().get("/entities").status_code == 401
        assert by_session().get("/openapi.json").status_code == 200
