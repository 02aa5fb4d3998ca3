"""Test the commands `plan_regrant` and `plan_readiness`."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from entities.vocabulary import ANY
from grants.models import Plan
from tests.support.authors import all_grants, is_permitted
from tests.support.changes import change_grants

pytestmark = pytest.mark.django_db

MEMBERS = ["plan", "grants", "kept", "beyond_gained", "beyond_lost", "kept_not"]
SHOP, SALES = "application:sales.shop", "namespace:sales"


def output(name, *arguments):
    out = io.StringIO()
    call_command(name, *arguments, stdout=out)
    return json.loads(out.getvalue())


def test_a_regrant_keeps_permissions_without_side_effects(cast):
    # in `existing`, ADMIN on the namespace is enough to administer what is inside
    change_grants(grant=[("user:out", SALES, privilege) for privilege in ANY])
    before = all_grants()
    result = output("plan_regrant", "--generation", "existing", "--to-generation", "final")
    assert (
        list(result) == MEMBERS
        and (result["beyond_gained"], result["beyond_lost"]) == (0, 0)
        and all_grants() == before
    )
    plan = Plan.objects.get(pk=result["plan"])
    assert plan.is_proposed and plan.items.count() == result["grants"] > 0 and result["kept"] > 0
    applied = output(
        "plan_regrant",
        "--generation",
        "existing",
        "--to-generation",
        "final",
        "--apply",
        "--reason",
        "we change",
    )
    assert Plan.objects.get(pk=applied["plan"]).reason == "we change" and is_permitted("out", "delete", SHOP)
    again = output("plan_regrant", "--generation", "existing", "--to-generation", "final")
    assert again == result | {"plan": None, "grants": 0}


def test_fewest_needs_no_more_grants_and_names_its_side_effects(cast):
    # in `existing`, the grant on the dataset must become one on the namespace
    arguments = ("--generation", "final", "--to-generation", "existing")
    narrowest, fewest = (
        output("plan_regrant", *arguments, "--prefer", prefer) for prefer in ("narrowest", "fewest")
    )
    assert narrowest["beyond_gained"] == 0 < narrowest["kept_not"]
    assert fewest["beyond_gained"] > 0 and fewest["kept"] > narrowest["kept"]


def test_a_readiness_plan_counts_deletions_and_what_is_beyond_them(cast):
    result = output("plan_readiness", "--namespace", "sales", "--user", "dee")
    # of the six live entities, the program cannot be deleted alone
    assert list(result) == MEMBERS and (result["grants"], result["kept"], result["kept_not"]) == (6, 5, 0)
    assert result["beyond_gained"] > 0 == result["beyond_lost"] and not is_permitted("dee", "delete", SALES)
    output(
        "plan_readiness",
        "--namespace",
        "namespace:sales",
        "--user",
        "dee",
        "--apply",
        "--reason",
        "she cleans up",
    )
    assert is_permitted("dee", "delete", SALES)
    assert output("plan_readiness", "--namespace", "sales", "--user", "dee") == {
        "plan": None,
        "grants": 0,
        "kept": 5,
        "beyond_gained": 0,
        "beyond_lost": 0,
        "kept_not": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plan_regrant", "--generation", "newest", "--to-generation", "final"),
            "`newest` is not a generation",
        ),
        (
            ("plan_regrant", "--generation", "core", "--to-generation", "final", "--apply"),
            "the reason is missing",
        ),
        (("plan_readiness", "--namespace", "nowhere", "--user", "dee"), "nowhere"),
        (("plan_readiness", "--namespace", "sales", "--user", "nobody"), "nobody"),
        (("plan_readiness", "--namespace", "dataset:sales.orders", "--user", "dee"), "dataset:sales.orders"),
    ],
)
def test_invalid_arguments_are_named(cast, arguments, message):
    with pytest.raises(CommandError, match=message):
        call_command(*arguments)
