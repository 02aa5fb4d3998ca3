"""Names with surrounding spaces or a type prefix: every field resolves the exact name first."""

import pytest

from authzconsole.models import ApiToken
from entities.address import parse_address
from grants.models import JournalLine, Plan, User
from tests.support.authors import all_grants
from tests.support.changes import add_grant, add_group, add_member
from tests.support.pages import post_as_shown

ORDERS = parse_address("dataset:sales.orders")
# the user `dee` exists too: the name that remains without spaces and prefix
NAMES = ["dee ", " dee", "user:dee"]


@pytest.fixture(params=NAMES)
def name(request, cast):
    User.objects.create_user(request.param, is_principal=True)
    return request.param


def holders_of(privilege):
    return {
        principal for principal, entity, held in all_grants() if entity == str(ORDERS) and held == privilege
    }


def test_granting_and_revoking_use_the_exact_name(name, browse):
    client = browse("ada")
    post_as_shown(client, f"/grant/{ORDERS}", {"principal": f"user:{name}", "privilege": "READ"})
    assert holders_of("READ") >= {f"user:{name}", "user:dee"}
    form = client.get(f"/revoke/{ORDERS}", {"principal": f"user:{name}", "privilege": "READ"})
    assert form.context["form"]["principal"].value() == f"user:{name}"
    post_as_shown(client, f"/revoke/{ORDERS}", {"principal": f"user:{name}", "privilege": "READ"})
    assert holders_of("READ") & {f"user:{name}", "user:dee"} == {"user:dee"}


def test_a_token_belongs_to_the_exact_name(name, browse):
    User.objects.filter(username=name).update(is_service=True)
    client, sent = browse("ada"), {"owner": name, "name": "nightly", "days": "9", "scope": "read"}
    assert client.get("/accounts/tokens/new", {"owner": name}).context["form"]["owner"].value() == name
    client.post("/accounts/tokens/new", sent)
    assert ApiToken.objects.get().owner.username == name


def test_membership_changes_use_the_exact_name(name, cast, browse):
    add_member("dee", "operators")
    client, sent = browse("ada"), {"user": name, "group": "operators"}
    post_as_shown(client, "/people/membership", sent | {"verb": "add"})
    assert cast["grp"].groups.get().user_set.filter(username=name).exists()
    post_as_shown(client, "/people/membership", sent | {"verb": "remove"})
    assert set(cast["grp"].groups.get().user_set.values_list("username", flat=True)) == {"grp", "dee"}


def test_questions_and_forecasts_use_the_exact_name(name, browse):
    client = browse("ada")
    for url in ("/ask", f"/entities/{ORDERS}"):
        question = {"subject": f"user:{name}", "operation": "read", "entity": str(ORDERS)}
        assert (
            client.get(url, question)
            .context["ask"]["answer"]
            .sentence.startswith(f"Denied: user:{name} lacks")
        )
    assert client.get("/entities/namespace:sales", {"deleter": name}).context["readiness"]["deleter"] == name
    assert client.get("/forecast/namespace:sales", {"deleter": name}).context["deleter"] == name
    users = client.get("/people/compare", {"one": name, "other": "dee"}).context["users"]
    assert [user.username for user in users] == [name, "dee"]


def test_plans_use_the_exact_name(name, browse):
    client = browse("ada")
    client.post("/plans/missing", {"address": str(ORDERS), "subject": f"user:{name}", "operation": "write"})
    client.post("/plans/copy", {"source": "user:ned", "target": f"user:{name}"})
    client.post(
        "/plans/readiness", {"namespace": "namespace:sales", "user": name, "principal": f"user:{name}"}
    )
    plans = Plan.objects.all()
    assert len(plans) == 3
    assert {(item.principal_type, item.principal_name) for plan in plans for item in plan.items.all()} == {
        ("user", name)
    }


def test_the_journal_filter_uses_the_exact_name(name, browse):
    add_grant(f"user:{name}", ORDERS, "EXECUTE")
    rows = browse("ada").get("/journal/", {"principal": f"user:{name}"}).context["rows"]
    assert len(rows) == JournalLine.objects.filter(principal=f"user:{name}").count() == 1


def test_surrounding_spaces_are_ignored_if_no_name_has_them(cast, browse):
    add_group("crew")
    client = browse("ada")
    post_as_shown(client, f"/grant/{ORDERS}", {"principal": "  user:out \t", "privilege": "WRITE"})
    assert holders_of("WRITE") >= {"user:out"}
    post_as_shown(client, "/people/membership", {"verb": "add", "user": " user:out ", "group": "group:crew "})
    assert [group.name for group in cast["out"].groups.all()] == ["crew"]
