"""Test the plans about one person over REST."""

import pytest

from grants.models import Plan
from tests.rest.conftest import problem
from tests.support.authors import account, all_grants
from tests.support.cast import SALES

pytestmark = pytest.mark.django_db


def test_a_user_is_off_boarded_with_one_plan_and_back_with_its_inverse(ada):
    before = all_grants()
    assert (
        "would have no active ADMIN holder"
        in problem(ada.post("/plans/off-boarding", {"user": "ned"}), 409)["detail"]
    )
    created = ada.post(
        "/plans/off-boarding",
        {
            "user": "ned",
            "stranded_to": ["user:dee"],
            "hand_over": [
                {"entity": "dataset:sales.orders", "to": ["user:out"]},
                {"entity": "namespace:sales", "inside": True, "to": ["user:grp", "group:operators"]},
            ],
        },
    )
    assert created.status_code == 201 and created.json()["effect"]["grants"] == 1 + 2 * (len(SALES) - 1)
    path = created["Location"].removeprefix("/api/v1")
    verbs = {item["verb"] for item in ada.all_of(f"{path}/items")}
    assert verbs == {"grant", "revoke", "deactivate"}
    plan = Plan.objects.get()
    assert plan.recipe["namespace_heirs"] == {"namespace:sales": ["user:grp", "group:operators"]}
    problem(
        ada.post(
            "/plans/off-boarding",
            {
                "user": "ned",
                "hand_over": [{"entity": "dataset:sales.orders", "inside": True, "to": ["user:out"]}],
            },
        ),
        400,
    )
    assert all_grants() == before and account("ned").is_active


def test_two_users_are_made_alike(ada):
    created = ada.post("/plans/like", {"source": "ned", "target": "dee", "remove": True})
    effect = created.json()["effect"]
    assert (created.status_code, effect["grants"], effect["revokes"]) == (201, len(SALES), 2)
    problem(ada.post("/plans/like", {"source": "out", "target": "dee"}), 409)
