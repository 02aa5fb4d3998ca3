"""Patterns over REST and AuthZEN: granted, listed and revoked as they are written, refused where one address is needed."""

import pytest

from tests.rest.conftest import grant_item, problem
from tests.support.authors import all_grants, is_permitted

pytestmark = pytest.mark.django_db
PATTERN = "dataset:sales.*"


def test_a_pattern_is_granted_listed_and_revoked_as_it_is_written(ada):
    answer = ada.post("/grants", {"grant": [grant_item("user:out", "DATASET:sales.*", "READ")]})
    assert answer.status_code == 200 and answer.json()["planned"] == []
    assert answer.json()["granted"][0]["entity"] == PATTERN
    assert is_permitted("out", "read", "dataset:sales.orders")
    (row,) = ada.get(f"/grants?entity={PATTERN}").json()["items"]
    assert (row["principal"], row["entity"], row["state"]) == ("user:out", PATTERN, "pattern")
    assert ada.get("/grants?principal=user:out&entity=dataset:sales.orders").json()["items"] == []
    assert PATTERN not in {row["address"] for row in ada.get("/entities").json()["items"]}
    ada.post("/grants", {"revoke": [grant_item("user:out", "dataset:*", "READ")]})
    assert is_permitted("out", "read", "dataset:sales.orders")
    ada.post("/grants", {"revoke": [grant_item("user:out", PATTERN, "READ")]})
    assert not is_permitted("out", "read", "dataset:sales.orders")
    assert "user:out" not in {principal for principal, *_ in all_grants()}


def test_a_dry_run_of_a_pattern_writes_nothing(ada):
    answer = ada.post("/grants", {"grant": [grant_item("user:out", PATTERN, "READ")], "dry_run": True}).json()
    assert answer["dry_run"] and answer["changed"] and not is_permitted("out", "read", "dataset:sales.orders")


def test_a_pattern_is_refused_where_one_address_is_needed(ada):
    for url in (f"/entities/{PATTERN}", f"/who-can?entity={PATTERN}", f"/entities?within={PATTERN}"):
        assert ada.get(url).status_code in (400, 404, 422), url
    problem(ada.post("/grants", {"grant": [grant_item("user:out", "namespace:a.*", "READ")]}), 400)
