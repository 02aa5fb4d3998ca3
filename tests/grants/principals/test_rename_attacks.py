"""Attacks with names: decisions are about names, so who gives a principal another name moves its access."""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from grants.errors import PrincipalError, SecondPersonRequired
from grants.models import JournalLine, Role, User
from grants.principals.services import add_group, add_user
from grants.stewards import add_steward
from tests.rest.conftest import Rest
from tests.scim.conftest import Scim, error_of
from tests.support.authors import COMMAND, account, author_named, is_permitted
from tests.support.changes import (
    add_grant,
    add_member,
    bearer,
    issue_token,
    remove_user,
    rename_group,
    rename_user,
)
from tests.support.pages import page_html, post_as_shown, shown_effect
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
NAMESPACE = parse_address("namespace:sales")
SCIM_USER = "urn:ietf:params:scim:schemas:core:2.0:User"
SCIM_GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"


@pytest.fixture(autouse=True)
def tenant(cast, settings):
    """ned holds ADMIN in the namespace sales."""
    settings.FOUR_EYES, settings.SCIM_ENABLED, settings.PROTECTED_NAMESPACES = True, True, ["hr"]
    cast["bob"] = User.objects.create(username="bob", role=Role.ADMINISTRATOR, is_principal=False)
    return cast


def by_page(author: str, old: str, new: str) -> int:
    browser = Browser()
    browser.force_login(account(author))
    return post_as_shown(browser, f"/people/rename/{old}", {"name": new, "reason": "married"}).status_code


def by_rest(author: str, old: str, new: str) -> int:
    rest = Rest(headers=bearer(author, "read", "administer"))
    kind, _, name = old.partition(":")
    path = f"/{kind}s/{name}"
    etag = rest.get(path).headers.get("ETag", "")
    return rest.patch(path, {"name": new, "reason": "married"}, If_Match=etag).status_code


@pytest.fixture
def idp():
    add_user(author=COMMAND, name="idp", is_service=True, is_principal=False)
    return Scim(headers={"Authorization": f"Bearer {issue_token('idp', 'provision').secret}"})


def by_scim(idp: Scim, principal: User, new: str):
    return idp.patch(f"/Users/{principal.pk}", {"op": "replace", "path": "userName", "value": new})


@pytest.mark.parametrize("rename", [by_page, by_rest])
def test_the_attack_one_administrator_moves_admin_to_another_person_by_two_renames(rename, tenant):
    """The person ned becomes somebody else, and the person out becomes ned."""
    before = dict(User.objects.values_list("username", "pk"))
    assert not is_permitted("out", "drop", "dataset:sales.orders")
    assert rename("ada", "user:ned", "ned-old") in (400, 403)
    assert rename("ada", "user:ned", "nobody-knows") in (400, 403)
    assert dict(User.objects.values_list("username", "pk")) == before
    # who has no access can get another name, but not the one that somebody gave up
    rename_user(name="ned", new_name="ned-old")
    assert rename("ada", "user:out", "ned") in (400, 409)
    assert account("out") == tenant["out"]


def test_a_rename_counts_as_a_change_of_all_grants_also_through_groups(settings, tenant):
    settings.FOUR_EYES_MAX_ITEMS = 3
    ada = author_named("ada")
    for who, change in {
        "grants ADMIN": lambda: rename_user(author=ada, name="ned", new_name="ned2"),
        "protected namespace hr": lambda: (
            add_grant("group:operators", "dataset:hr.salaries", "READ"),
            rename_user(author=ada, name="grp", new_name="grp2"),
        ),
        "protected namespace hr.*": lambda: rename_group(author=ada, name="operators", new_name="ops"),
    }.items():
        with pytest.raises(SecondPersonRequired, match=f"one person cannot rename .*{who}"):
            change()
    add_grant("user:out", "dataset:sales.orders", "READ")
    assert rename_user(author=ada, name="out", new_name="outer").has_changed
    for name in ("READ", "WRITE", "EXECUTE"):
        add_grant("user:outer", "dataset:sales.customers", name)
    with pytest.raises(SecondPersonRequired, match="more than 3 items"):
        rename_user(author=ada, name="outer", new_name="other")


def test_a_rename_of_the_own_account_with_access_needs_two_persons(tenant):
    assert rename_user(author=author_named("ada"), name="ada", new_name="ada.lind").has_changed
    add_grant("user:ada.lind", "dataset:sales.orders", "READ")
    with pytest.raises(SecondPersonRequired, match="concerns the person"):
        rename_user(author=author_named("ada.lind"), name="ada.lind", new_name="ada")


def test_a_data_steward_without_grants_is_not_renamed_by_one_person(tenant):
    add_steward(author=COMMAND, namespace=NAMESPACE, principal="user:out")
    with pytest.raises(SecondPersonRequired, match="appoints a data steward"):
        rename_user(author=author_named("ada"), name="out", new_name="mallory")


@pytest.mark.parametrize("is_on", [True, False])
def test_a_name_in_recent_use_goes_to_nobody_else(is_on, settings, tenant):
    settings.FOUR_EYES = is_on
    bob = author_named("bob")
    rename_user(name="out", new_name="out-old")
    rename_group(name="operators", new_name="ops")
    for change in (
        lambda: rename_user(author=bob, name="dee", new_name="out"),
        lambda: add_user(author=bob, name="out"),
        lambda: add_group(author=bob, name="operators"),
    ):
        with pytest.raises(
            PrincipalError, match="others may still know it.*choose another name, or wait until"
        ):
            change()
    # its owner takes it back
    assert rename_user(author=bob, name="out-old", new_name="out").has_changed
    # the name of a removed user is free for a new one, but no existing one gets it
    remove_user("out")
    with pytest.raises(PrincipalError, match="belonged to a user that was removed"):
        rename_user(author=bob, name="dee", new_name="out")
    assert add_user(author=bob, name="out").has_changed
    JournalLine.objects.update(at=timezone.now() - timedelta(days=31))
    assert add_group(author=bob, name="operators").has_changed


def test_a_name_that_a_later_holder_gave_up_does_not_return_to_an_earlier_one(settings, tenant):
    """Otherwise the first holder would inherit what others gave to the second one by name."""
    settings.FOUR_EYES = False
    bob = author_named("bob")
    rename_user(name="out", new_name="first")
    add_user(author=COMMAND, name="out")
    rename_user(name="out", new_name="second")
    with pytest.raises(PrincipalError, match="was the name of user:second"):
        rename_user(author=bob, name="first", new_name="out")
    assert rename_user(author=bob, name="second", new_name="out").has_changed


def test_the_attack_a_provisioning_service_moves_admin_by_a_rename(idp, settings, tenant):
    for is_on in (True, False):
        settings.FOUR_EYES = is_on
        detail = error_of(by_scim(idp, tenant["ned"], "mallory"), 409)
        assert "holds ADMIN, so only an administrator can rename it" in detail
    add_grant("group:operators", "dataset:sales.orders", "ADMIN")
    assert "holds ADMIN" in error_of(by_scim(idp, tenant["grp"], "mallory"), 409)
    operators = idp.get("/Groups", filter='displayName eq "operators"').json()["Resources"][0]["id"]
    answer = idp.patch(f"/Groups/{operators}", {"op": "replace", "path": "displayName", "value": "x"})
    assert "holds ADMIN" in error_of(answer, 409)
    # nor does a service move a user to a name that belonged to somebody with ADMIN
    rename_user(name="ned", new_name="ned-old")
    assert "was the name of user:ned-old" in error_of(by_scim(idp, tenant["out"], "ned"), 409)
    assert idp.create_user("ned").status_code == 409
    assert by_scim(idp, tenant["out"], "out.side").status_code == 200


def test_the_attack_an_account_gets_the_name_of_a_setting(settings, tenant):
    """Otherwise one administrator makes another account a break-glass account, or a group one that the sign-in
    provider fills.
    """
    settings.BREAK_GLASS_ACCOUNTS = ["emergency"]
    with pytest.raises(PrincipalError, match="BREAK_GLASS_ACCOUNTS names it"):
        rename_user(author=author_named("ada"), name="bob", new_name="emergency")


def test_the_page_shows_who_gains_and_who_loses_before_a_rename(settings, tenant):
    settings.FOUR_EYES = False
    browser = Browser()
    browser.force_login(tenant["ada"])
    shown = browser.post("/people/rename/user:dee", {"name": "dora"})
    page = page_html(shown)
    assert shown.status_code == 200 and set(shown_effect(shown)) == {"effect", "effect_of"}
    assert page.count("gains") and page.count("loses") and "user:dora" in page
    assert not User.objects.filter(username="dora").exists()
    # the effect of one name confirms no other name
    other = browser.post("/people/rename/user:dee", {"name": "mallory"} | shown_effect(shown))
    assert other.status_code == 200 and User.objects.filter(username="dee").exists()
    assert browser.post("/people/rename/user:dee", {"name": "dora"} | shown_effect(shown)).status_code == 303


def test_a_dry_run_over_rest_reports_the_effect_and_strands_nothing(settings, tenant):
    settings.FOUR_EYES = False
    rest = Rest(headers=bearer("ada", "read", "administer"))
    answer = rest.patch("/users/ned", {"name": "mallory", "dry_run": True})
    assert answer.status_code == 200, answer.content
    effect = answer.json()["effect"]
    assert {row["user"] for row in effect["users"]} == {"ned", "mallory"}
    assert effect["for"]["gained"] == effect["for"]["lost"] > 0
    assert (effect["stranded_none"], effect["stranded_one"]) == (0, 0)
    assert answer.json()["name"] == "mallory" and User.objects.filter(username="ned").exists()


def test_a_rename_by_one_person_counts_in_the_hour(settings, tenant):
    settings.FOUR_EYES_MAX_ITEMS = 2
    ada = author_named("ada")
    rename_user(author=ada, name="out", new_name="o1")
    rename_user(author=ada, name="o1", new_name="o2")
    with pytest.raises(SecondPersonRequired, match="last hour"):
        add_grant("user:o2", "dataset:sales.orders", "READ", author=ada)
    add_member("o2", "operators")
