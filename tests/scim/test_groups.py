"""Groups over SCIM: memberships, removal, and the number of statements."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from grants.journal import current_revision
from grants.models import JournalLine, User
from grants.principals.services import add_role
from tests.scim.conftest import GROUP, error_of
from tests.support.authors import COMMAND, database_state, lines_after
from tests.support.changes import add_member


@pytest.fixture
def path(scim, ids):
    return f"/Groups/{scim.create_group('readers', [ids['dee'], ids['ned']]).json()['id']}"


def members(name="readers"):
    return set(User.objects.filter(groups__name=name).values_list("username", flat=True))


def test_a_group_is_created_with_members(scim, ids, issued_token):
    before = current_revision()
    answer = scim.create_group("readers", [ids["ada"], ids["dee"]], externalId="g1")
    pk = Group.objects.get(name="readers").pk
    assert (
        answer.status_code == 201 and answer.json()["id"] == str(pk) and answer.json()["externalId"] == "g1"
    )
    assert [member["value"] for member in answer.json()["members"]] == [ids["ada"], ids["dee"]]
    # ada was an account of the console only
    assert [line[:2] for line in lines_after(before)] == [
        ("group-add", "group:readers"),
        ("principal-add", "user:ada"),
        ("member-add", "user:ada"),
        ("member-add", "user:dee"),
    ]
    assert set(JournalLine.objects.filter(revision__gt=before).values_list("token", flat=True)) == {
        issued_token.token.pk
    }
    before = database_state()
    error_of(scim.create_group("readers"), 409, "uniqueness")
    error_of(scim.create_group("writers", ["999999999"]), 400, "invalidValue")
    error_of(scim.create_group("writers", ["ned"]), 400, "invalidValue")
    error_of(scim.create_group(""), 400, "invalidValue")
    assert database_state() == before


def test_scim_neither_sees_nor_makes_roles(scim, ids, path):
    add_role(author=COMMAND, name="stewards")
    add_member("dee", "role:stewards")
    pk, before = Group.objects.get(name="role:stewards").pk, database_state()
    assert scim.get(f"/Groups/{pk}").status_code == 404
    assert scim.send("delete", f"/Groups/{pk}").status_code == 404
    assert scim.create_group("role:owners").status_code == 409
    rename = {"schemas": [GROUP], "displayName": "role:owners"}
    assert scim.send("put", path, rename).status_code == 409
    assert database_state() == before


def test_members_are_patched(scim, ids, path):
    def patch(*operations, status=204):
        answer = scim.patch(path, *operations)
        assert answer.status_code == status, answer.content
        return members()

    value = [{"value": ids[name]} for name in ("grp", "out")]
    assert patch({"op": "add", "path": "members", "value": value}) == {"dee", "ned", "grp", "out"}
    before = current_revision()
    assert patch({"op": "add", "path": "members", "value": value}) == {"dee", "ned", "grp", "out"}
    assert current_revision() == before
    assert patch({"op": "remove", "path": f'members[value eq "{ids["ned"]}"]'}) == {"dee", "grp", "out"}
    assert patch(
        {"op": "remove", "path": f'members[value eq "{ids["grp"]}" or value eq "{ids["out"]}"]'}
    ) == {"dee"}
    whole = {"members": value, "displayName": "readers", "externalId": "g2"}
    assert patch({"op": "Add", "value": whole}) == {"dee", "grp", "out"}
    # as Microsoft Entra ID sends it
    assert patch({"op": "Remove", "path": "members", "value": [{"value": ids["grp"]}]}) == {"dee", "out"}
    assert patch(
        {"op": "add", "path": "members", "value": [{"value": ids["ned"]}]},
        {"op": "remove", "path": 'members[display sw "n" or display eq "out"]'},
    ) == {"dee"}
    assert patch({"op": "replace", "path": "members", "value": value}) == {"grp", "out"}
    assert patch(
        {"op": "remove", "path": "members"},
        {"op": "add", "path": "members", "value": [{"value": ids["ned"]}]},
    ) == {"ned"}
    assert scim.get(path).json()["externalId"] == "g2"


BAD_OPERATIONS = [
    ({"op": "replace", "path": "displayName", "value": "a\nb"}, "invalidValue"),
    ({"op": "remove", "path": "displayName"}, "mutability"),
    ({"op": "add", "path": "members", "value": [{"value": "1234567"}]}, "invalidValue"),
    ({"op": "add", "path": "members", "value": [{"display": "ned"}]}, "invalidValue"),
    ({"op": "add", "path": "members", "value": ["1"]}, "invalidValue"),
    ({"op": "replace", "path": 'members[display eq "ned"].value', "value": "1"}, "mutability"),
    ({"op": "remove", "path": "members[display"}, "invalidPath"),
    ({"op": "remove"}, "noTarget"),
    ({"op": "explode", "path": "members"}, "invalidValue"),
    ({"op": "replace", "value": "x"}, "invalidValue"),
    ({"op": "remove", "path": 'members[nothing eq "x"]'}, "invalidFilter"),
]


def test_bad_operations_change_nothing(scim, ids, path):
    before = database_state()
    for operation, scim_type in BAD_OPERATIONS:
        error_of(
            scim.patch(path, {"op": "remove", "path": f'members[value eq "{ids["dee"]}"]'}, operation),
            400,
            scim_type,
        )
    assert database_state() == before


def test_put_replaces_the_members_only_if_it_names_them(scim, ids, path):
    body = {"schemas": [GROUP], "displayName": "readers"}
    assert scim.send("put", path, body).status_code == 200 and members() == {"dee", "ned"}
    answer = scim.send("put", path, body | {"members": [{"value": ids["out"]}]})
    assert [member["value"] for member in answer.json()["members"]] == [ids["out"]] and members() == {"out"}
    assert scim.send("put", path, body | {"members": []}).status_code == 200 and members() == set()
    assert scim.send("put", path, body | {"displayName": "others"}).json()["displayName"] == "others"
    assert (
        Group.objects.get(name="others").user_set.count() == 0
        and not Group.objects.filter(name="readers").exists()
    )
    assert scim.patch(path, {"op": "replace", "path": "displayName", "value": "readers"}).status_code == 204
    error_of(scim.patch(path, {"op": "replace", "path": "displayName", "value": "operators"}), 409)
    error_of(scim.send("put", path, body | {"displayName": "OPERATORS"}), 409)


def test_members_that_scim_cannot_see_remain(scim, ids, path):
    User.objects.create(username="batch", is_service=True).groups.add(Group.objects.get(name="readers"))
    assert scim.patch(path, {"op": "remove", "path": "members"}).status_code == 204
    assert members() == {"batch"} and "members" not in scim.get(path).json()


def test_a_group_with_grants_is_not_removed(scim, ids, path):
    before = database_state()
    operators = Group.objects.get(name="operators").pk
    assert "grants" in error_of(scim.send("delete", f"/Groups/{operators}"), 409)
    assert database_state() == before
    assert scim.send("delete", path).status_code == 204
    assert [line[0] for line in lines_after(before[0])] == ["member-remove", "member-remove", "group-remove"]
    error_of(scim.get(path), 404)
    assert scim.create_group("readers").status_code == 201


def test_groups_are_filtered(scim, ids, path):
    for text, names in {
        'displayName eq "readers"': ["readers"],
        f'members eq "{ids["dee"]}"': ["readers"],
        'members[display eq "grp"]': ["operators"],
        f'displayName eq "readers" and members.value eq "{ids["grp"]}"': [],
        "members pr": ["operators", "readers"],
        f'not (members eq "{ids["dee"]}")': ["operators"],
        f'members ne "{ids["dee"]}"': ["operators"],
        'members[type eq "User" and not (display eq "dee")]': ["operators", "readers"],
    }.items():
        assert scim.names("/Groups", filter=text, sortBy="displayName") == names, text
    assert "members" not in scim.get("/Groups", excludedAttributes="members").json()["Resources"][0]
    found = scim.get(path, attributes="members.display").json()
    assert sorted(member["display"] for member in found["members"]) == ["dee", "ned"]


def test_a_thousand_members_take_a_constant_number_of_statements(scim, path):
    def statements(count):
        users = User.objects.bulk_create(
            User(username=f"u{count}-{i}", is_principal=i % 2) for i in range(count)
        )
        value = [{"value": str(user.pk)} for user in users]
        with CaptureQueriesContext(connection) as added:
            assert scim.patch(path, {"op": "add", "path": "members", "value": value}).status_code == 204
        paths = [f'members[value eq "{item["value"]}"]' for item in value[: count * 2 // 5]]
        with CaptureQueriesContext(connection) as removed:
            assert (
                scim.patch(
                    path,
                    *({"op": "remove", "path": item} for item in paths),
                    {"op": "remove", "path": "members", "value": value[count * 2 // 5 :]},
                ).status_code
                == 204
            )
        return len(added), len(removed)

    statements(1)
    few, many = statements(2), statements(1_000)
    # the names of a thousand users are resolved in two statements
    assert max(many) <= max(few) + 3 <= 27, (few, many)
    assert len(members()) == 2
