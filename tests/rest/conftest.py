"""REST clients of the users of `tests.support.cast`, by session and by token."""

import pytest

from tests.support.cast import create_sample_tenant
from tests.support.changes import bearer
from tests.support.json_client import JsonClient

ROOT = "/api/v1"
QUESTION = {
    "subject": {"type": "user", "id": "dee"},
    "action": {"name": "read"},
    "resource": {"type": "dataset", "id": "sales.orders"},
}


ORDERS = "dataset:sales.orders"


def grant_item(principal="user:out", entity=ORDERS, *privileges, **period):
    """Return an item of a change set; by default about READ."""
    privileges = list(privileges or ["READ"])
    return {"principal": principal, "entity": entity, "privileges": privileges, **period}


class Rest(JsonClient):
    root = ROOT

    def put(self, path, body=None, **headers):
        return self.send("put", path, body, **headers)

    def patch(self, path, body=None, **headers):
        return self.send("patch", path, body, **headers)

    def delete(self, path, *, query="", **headers):
        return self.client.delete(f"{ROOT}{path}{query}", headers=self.headers | headers)

    def all_of(self, path, **query):
        """Return every item of a list, page by page."""
        items, cursor = [], ""
        while True:
            answer = self.get(path, **query, **({"cursor": cursor} if cursor else {}))
            assert answer.status_code == 200, answer.content
            page, cursor = answer.json()["items"], answer.json()["next"]
            assert len(page) <= int(query.get("limit", 50))
            items += page
            if cursor is None:
                return items


def apply_plan(rest, number, reason="x"):
    return rest.post(f"/plans/{number}/apply", {"reason": reason, "confirm_beyond": True})


@pytest.fixture
def cast(db):
    return create_sample_tenant()


@pytest.fixture
def by_session(cast):
    def rest(name=""):
        caller = Rest()
        if name:
            caller.client.force_login(cast[name])
        return caller

    return rest


@pytest.fixture
def by_token(cast):
    def rest(name, *scopes):
        return Rest(headers=bearer(name, *(scopes or ["decide", "read", "administer"])))

    return rest


@pytest.fixture
def ada(by_session):
    return by_session("ada")


def problem(answer, status):
    """Check the status and the shape of a problem document, and return it."""
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert answer["Content-Type"] == "application/problem+json"
    content = answer.json()
    assert content["status"] == status and content["instance"] == answer["X-Request-ID"]
    assert content["type"].startswith("urn:authzconsole:problem:") and content["title"] and content["detail"]
    return content
