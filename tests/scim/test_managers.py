"""Managers of users over SCIM: the enterprise extension."""

import pytest

from grants.journal import current_revision
from grants.models.reviews import UserManagerLink
from grants.reviews.reviewers import set_manager
from tests.scim.conftest import USER, error_of
from tests.support.authors import account, database_state, lines_after
from tests.support.cast import SETUP
from tests.support.changes import set_user_active

ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
PATH = f"{ENTERPRISE}:manager"


def manager_of(name: str) -> str:
    return (
        UserManagerLink.objects.filter(user__username=name)
        .values_list("manager__username", flat=True)
        .first()
        or ""
    )


def test_the_manager_is_set_shown_and_removed_with_a_line_of_the_journal(scim, ids):
    path, before = f"/Users/{ids['dee']}", current_revision()
    answer = scim.patch(path, {"op": "add", "path": PATH, "value": {"value": ids["ned"]}})
    assert answer.status_code == 200, answer.content
    assert answer.json()["schemas"] == [USER, ENTERPRISE]
    manager = answer.json()[ENTERPRISE]["manager"]
    assert manager | {"$ref": ""} == {"value": ids["ned"], "$ref": ""}
    assert manager["$ref"].endswith(f"/scim/v2/Users/{ids['ned']}") and manager_of("dee") == "ned"
    scim.patch(path, {"op": "replace", "path": "externalId", "value": "7"})
    assert manager_of("dee") == "ned"
    removed = scim.patch(path, {"op": "remove", "path": PATH})
    assert (
        ENTERPRISE not in removed.json() and removed.json()["schemas"] == [USER] and manager_of("dee") == ""
    )
    assert [(line[0], line[1]) for line in lines_after(before)] == [("user-change", "user:dee")] * 3


@pytest.mark.parametrize(
    "operation",
    [
        lambda pk: {"op": "Add", "path": PATH, "value": pk},
        lambda pk: {"op": "Replace", "path": PATH, "value": [{"$ref": f"/Users/{pk}", "value": pk}]},
        lambda pk: {"op": "replace", "path": f"{PATH}.value", "value": pk},
        lambda pk: {"op": "replace", "value": {ENTERPRISE: {"manager": pk, "department": "Sales"}}},
        lambda pk: {
            "op": "replace",
            "path": ENTERPRISE,
            "value": {"manager": {"value": pk, "displayName": "Ned"}},
        },
        lambda pk: {"op": "replace", "value": {PATH: pk}},
    ],
)
def test_the_dialects_of_identity_providers_are_understood(scim, ids, operation):
    answer = scim.patch(f"/Users/{ids['dee']}", operation(ids["ned"]))
    assert answer.status_code == 200 and answer.json()[ENTERPRISE]["manager"]["value"] == ids["ned"], (
        answer.content
    )
    assert manager_of("dee") == "ned"


def test_a_user_is_created_and_replaced_with_a_manager(scim, ids):
    created = scim.create_user("nina", **{ENTERPRISE: {"manager": {"value": ids["ned"]}}})
    assert created.status_code == 201 and manager_of("nina") == "ned"
    path, body = (
        f"/Users/{created.json()['id']}",
        {"schemas": [USER, ENTERPRISE], "userName": "nina", "active": True},
    )
    assert scim.send("put", path, body | {ENTERPRISE: {"department": "Sales"}}).status_code == 200
    assert scim.send("put", path, body).json()[ENTERPRISE]["manager"]["value"] == ids["ned"]
    assert scim.send("put", path, body | {ENTERPRISE: {"manager": {"value": ids["dee"]}}}).status_code == 200
    assert manager_of("nina") == "dee"
    assert ENTERPRISE not in scim.send("put", path, body | {ENTERPRISE: {"manager": None}}).json()
    assert manager_of("nina") == ""


def test_a_manager_that_does_not_exist_changes_nothing(scim, ids):
    path, before = f"/Users/{ids['dee']}", database_state()
    service = str(account("idp").pk)
    for value in ("0", "x", "999999", service, ids["ned"] + " "):
        detail = error_of(
            scim.patch(
                path,
                {"op": "replace", "path": "externalId", "value": "7"},
                {"op": "add", "path": PATH, "value": {"value": value}},
            ),
            400,
            "invalidValue",
        )
        assert "no user has the id" in detail
    assert "own manager" in error_of(scim.patch(path, {"op": "add", "path": PATH, "value": ids["dee"]}), 409)
    assert database_state() == before


def test_lists_are_filtered_by_the_manager_and_select_it(scim, ids, django_assert_num_queries):
    for name in ("dee", "out"):
        set_manager(author=SETUP, name=name, manager="ned")
    for text, names in {
        f'{PATH}.value eq "{ids["ned"]}"': {"dee", "out"},
        f"{PATH} pr": {"dee", "out"},
        f"{PATH}.value pr": {"dee", "out"},
        f'{PATH}.value ne "{ids["ned"]}"': set(ids) - {"dee", "out"},
        f'{PATH}.displayName sw "n"': {"dee", "out"},
        f"not ({PATH} pr)": set(ids) - {"dee", "out"},
        f'{PATH}.value eq "{ids["dee"]}"': set(),
    }.items():
        assert set(scim.names("/Users", filter=text)) == names, text
    with django_assert_num_queries(4):
        scim.get("/Users")
    path = f"/Users/{ids['dee']}"
    assert scim.get(path, attributes=f"{PATH}.displayName").json()[ENTERPRISE] == {
        "manager": {"displayName": "ned"}
    }
    for name in (PATH, ENTERPRISE, f"{PATH}.value", f"{PATH.lower()},userName"):
        answer = scim.get(path, attributes=name).json()
        assert answer[ENTERPRISE]["manager"]["value"] == ids["ned"] and answer["schemas"] == [
            USER,
            ENTERPRISE,
        ], name
    assert scim.get(path, attributes="userName").json() == {
        "schemas": [USER],
        "id": ids["dee"],
        "userName": "dee",
    }
    assert ENTERPRISE not in scim.get(path, excludedAttributes=PATH).json()
    assert "$ref" not in scim.get(path, excludedAttributes=f"{PATH}.$ref").json()[ENTERPRISE]["manager"]
    assert "userName" not in scim.get(path, excludedAttributes="userName").json()


def test_a_user_whom_scim_removes_manages_nobody(scim, ids):
    set_manager(author=SETUP, name="dee", manager="ned")
    scim.send("delete", f"/Users/{ids['ned']}")
    path = f"/Users/{ids['dee']}"
    assert ENTERPRISE not in scim.get(path).json()
    assert manager_of("dee") == ""


def test_a_person_who_returns_under_a_removed_name_manages_no_users(scim, ids):
    created = scim.create_user("nina").json()["id"]
    set_manager(author=SETUP, name="dee", manager="nina")
    set_manager(author=SETUP, name="nina", manager="ned")
    scim.send("delete", f"/Users/{created}")
    assert scim.create_user("nina").status_code == 201
    assert not UserManagerLink.objects.exists()


def test_the_extension_is_published(scim):
    types = {resource["id"]: resource for resource in scim.get("/ResourceTypes").json()["Resources"]}
    assert types["User"]["schemaExtensions"] == [{"schema": ENTERPRISE, "required": False}]
    schema = scim.get(f"/Schemas/{ENTERPRISE}").json()
    assert [attribute["name"] for attribute in schema["attributes"]] == ["manager"]


def test_managers_stay_when_a_user_is_deactivated(scim, ids):
    set_manager(author=SETUP, name="dee", manager="ned")
    set_user_active("ned", active=False)
    assert scim.get(f"/Users/{ids['dee']}").json()[ENTERPRISE]["manager"]["value"] == ids["ned"]
