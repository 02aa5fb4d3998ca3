"""Test renaming and removing users and groups over REST."""

import pytest
from django.contrib.auth.models import Group

from grants.models import User
from tests.rest.conftest import problem

pytestmark = pytest.mark.django_db


def test_users_are_renamed_with_if_match_and_removed(ada):
    etag = ada.get("/users/dee")["ETag"]
    problem(ada.patch("/users/dee", {"name": "dora"}), 428)
    renamed = ada.patch("/users/dee", {"name": "dora"}, **{"If-Match": etag})
    assert (
        renamed.status_code == 200
        and renamed.json()["name"] == "dora"
        and ada.get("/users/dee").status_code == 404
    )
    problem(ada.delete("/users/dora"), 409)
    assert (
        ada.delete("/users/dora", query="?revoke_grants=true&reason=left").json()["sentence"]
        == "user:dora was removed"
    )
    assert not User.objects.filter(username="dora").exists()


def test_groups_are_renamed_and_removed(ada):
    assert ada.patch("/groups/operators", {"name": "operations"}).json() == {"name": "operations"}
    problem(ada.patch("/groups/operations", {"name": "a\u200bb"}), 409)
    problem(ada.delete("/groups/operations"), 409)
    assert ada.delete("/groups/operations", query="?revoke_grants=true").json()["changed"] is True
    assert not Group.objects.exists()
