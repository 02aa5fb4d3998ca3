"""Lists and details with `as_of` show an earlier revision to administrators and auditors."""

import pytest

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.active_generation import propose_generation
from grants.journal import current_revision
from grants.validity import Validity
from tests.support.cast import SETUP
from tests.support.changes import (
    activate_generation,
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    register_entity,
    remove_member,
    set_user_active,
)

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:lab.orders")


@pytest.fixture
def past(cast):
    """The revision at which nina was active, a member of `readers`, and the group held READ on a live
    dataset.
    """
    add_user("nina")
    add_group("readers")
    add_member("nina", "readers")
    for address in (parse_address("namespace:lab"), ORDERS):
        register_entity(address)
    change_grants(grant=[("group:readers", ORDERS, Privilege.READ)])
    revision = current_revision()
    change_grants(revoke=[("group:readers", ORDERS, Privilege.READ)])
    remove_member("nina", "readers")
    set_user_active("nina", active=False)
    delete_entity(ORDERS)
    return revision


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/users/nina", lambda user: user["active"]),
        ("/users?name=nina", lambda page: page["items"][0]["active"]),
        ("/members?group=readers", lambda page: bool(page["items"])),
        ("/grants?principal=group:readers", lambda page: bool(page["items"])),
        ("/entities/dataset:lab.orders", lambda entity: entity["state"] == "live"),
        ("/entities?kind=dataset&state=live&within=namespace:lab", lambda page: bool(page["items"])),
        ("/groups?name=readers", lambda page: "items" in page and bool(page["items"])),
    ],
)
def test_a_read_with_as_of_shows_the_earlier_state(by_session, past, path, read):
    rest, separator = by_session("ada"), "&" if "?" in path else "?"
    assert read(rest.get(f"{path}{separator}as_of={past}").json())
    assert "readers" in path or not read(rest.get(path).json())
    assert read(by_session("aud").get(f"{path}{separator}as_of={past}&at=2100-01-01T00:00:00Z").json())
    assert by_session("dee").get(f"{path}{separator}as_of={past}").status_code == 403


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("as_of=99999", "the newest revision is"),
        ("as_of=2001-01-01T00:00:00Z", "before the first journal line"),
        ("at=2026-05-01T12:00:00", "no time zone"),
        ("as_of=x", "neither a revision"),
    ],
)
def test_an_unknown_moment_is_refused(by_session, past, query, message):
    answer = by_session("ada").get(f"/grants?{query}")
    assert answer.status_code == 400 and message in answer.json()["detail"]


def test_the_active_generation_is_that_of_then(by_session, past):
    activate_generation("core")
    ada = by_session("ada")
    assert (ada.get(f"/policies/active?as_of={past}").json(), ada.get("/policies/active").json()) == (
        {"name": "final"},
        {"name": "core"},
    )
    then = ada.get(f"/policies?as_of={past}").json()["items"]
    assert [item["name"] for item in then if item["active"]] == ["final"]
    assert by_session("dee").get(f"/policies/active?as_of={past}").status_code == 403


def test_a_proposal_of_now_is_not_shown_with_an_earlier_state(by_session, past, settings):
    settings.FOUR_EYES = True
    propose_generation(author=SETUP, name="core")
    ada = by_session("ada")
    assert ada.get("/policies/active").json() == {"name": "final", "proposed": "core"}
    assert ada.get(f"/policies/active?as_of={past}").json() == {"name": "final"}


def test_a_forecast_is_about_the_state_and_the_time_of_the_question(by_session, past):
    period = Validity.parse("2126-12-04T09:00:00Z", "2126-12-05T00:00:00Z")
    change_grants(grant=[("user:out", "namespace:lab", Privilege.ADMIN, period)])
    ada, path = by_session("ada"), "/forecasts/deletion?namespace=namespace:lab&user=out"
    now, on_friday = ada.get(path).json(), ada.get(f"{path}&at=2126-12-04T10:00:00Z").json()
    assert (now["verdict"], on_friday["verdict"], now["live"]) == ("refused", "complete", 1)
    assert ada.get(f"{path}&as_of={past}").json()["live"] == 2
    assert by_session("out").get(f"{path}&at=2126-12-04T10:00:00Z").status_code == 403


def test_what_did_not_exist_is_not_found(by_session, past):
    assert by_session("ada").get("/entities/dataset:lab.orders?as_of=1").status_code == 404


def test_pages_of_an_earlier_state_follow_each_other(by_session, past):
    names = [item["address"] for item in by_session("ada").all_of("/entities", limit=1, as_of=past)]
    assert names == sorted(names) and "dataset:lab.orders" in names


@pytest.mark.parametrize(
    ("at", "is_in_force"),
    [
        ("2126-12-04T08:59:59Z", False),
        ("2126-12-04T10:00:00%2B01:00", True),
        ("2126-12-05T00:00:00Z", False),
        # before the first journal line
        ("1970-01-01T00:00:00Z", False),
    ],
)
def test_a_read_with_at_shows_the_grants_in_force_at_that_time(by_session, past, at, is_in_force):
    period = Validity.parse("2126-12-04T09:00:00Z", "2126-12-05T00:00:00Z")
    change_grants(grant=[("user:out", "dataset:sales.orders", Privilege.READ, period)])
    ada = by_session("ada")
    for path in ("/what-can?principal=user:out&kind=dataset", "/grants?principal=user:out"):
        assert bool(ada.get(f"{path}&at={at}").json()["items"]) is is_in_force, path
    assert (
        "'out'" in str(ada.get(f"/who-can?entity=dataset:sales.orders&at={at}").json()["items"])
    ) is is_in_force
    assert by_session("out").get(f"/grants?principal=user:out&at={at}").status_code == 403
