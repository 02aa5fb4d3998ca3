"""A provisioning service that calls the SCIM API with its token."""

import pytest

from tests.support.cast import create_sample_tenant
from tests.support.changes import add_user, issue_token
from tests.support.json_client import JsonClient

ROOT = "/scim/v2"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"


class Scim(JsonClient):
    root = ROOT
    content_type = "application/scim+json"

    def create_user(self, user_name, **attributes):
        return self.send("post", "/Users", {"schemas": [USER], "userName": user_name, **attributes})

    def create_group(self, name, members=(), **attributes):
        members = [{"value": pk} for pk in members]
        return self.send(
            "post", "/Groups", {"schemas": [GROUP], "displayName": name, "members": members, **attributes}
        )

    def patch(self, path, *operations):
        return self.send("patch", path, {"schemas": [PATCH], "Operations": list(operations)})

    def names(self, path, **query):
        """Return the names in a list."""
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.content
        return [item.get("userName") or item["displayName"] for item in answer.json()["Resources"]]


def error_of(answer, status, scim_type=None):
    """Check the status and the form of a SCIM error, and return its detail."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/scim+json"
    content = answer.json()
    assert (
        content["schemas"] == [ERROR]
        and content["status"] == str(status)
        and content.get("scimType") == scim_type
    )
    return content["detail"]


@pytest.fixture
def cast(db):
    return create_sample_tenant()


@pytest.fixture
def ids(cast):
    """The SCIM ids of the sample users."""
    return {name: str(user.pk) for name, user in cast.items()}


def provisioning_token():
    """Create a service account with a token of the scope `provision`, and return the token."""
    add_user("idp", is_service=True, is_principal=False)
    return issue_token("idp", "provision")


@pytest.fixture
def issued_token(cast):
    return provisioning_token()


@pytest.fixture
def scim(issued_token, settings):
    settings.SCIM_ENABLED = True
    return Scim(headers={"Authorization": f"Bearer {issued_token.secret}"})
