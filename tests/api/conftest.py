"""A client of the AuthZEN API, and a small tenant with two users."""

import pytest
from django.test import Client

from entities.address import parse_address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.models import Role, User
from tests.support.changes import add_group, add_member, add_user, change_grants, issue_token
from tests.support.json_client import JsonClient

PASSWORD = "correct horse battery"
SUBJECT_SEARCH = {
    "subject": {"type": "user"},
    "action": {"name": "read"},
    "resource": {"type": "dataset", "id": "lab.record-1"},
}
RESOURCE_SEARCH = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "dataset"},
}


class Api(JsonClient):
    def evaluate(self, body):
        return self.post("/access/v1/evaluation", body)

    def evaluate_all(self, body):
        return self.post("/access/v1/evaluations", body)

    def search(self, what, body):
        return self.post(f"/access/v1/search/{what}", body)


def by_session(name: str) -> Api:
    """Sign in with the password of `account`."""
    client = Client()
    assert client.login(username=name, password=PASSWORD)
    return Api(client, {})


@pytest.fixture
def service(db):
    return create_service()


def create_service():
    add_user("service", is_principal=False, is_service=True)
    return User.objects.get(username="service")


@pytest.fixture
def secret(service):
    return create_secret()


def create_secret():
    return issue_token("service", "decide").secret


@pytest.fixture
def api(client, secret):
    return Api(client, {"Authorization": f"Bearer {secret}"})


@pytest.fixture
def people(db):
    create_people()


def create_people():
    """Create Alice and Bob.

    Alice can read and write the first dataset, Bob can read it through a group; neither has grants on the
    second.
    """
    for name in ("alice", "bob"):
        add_user(name)
    add_group("readers")
    add_member("bob", "readers")
    for key in ("dataset:lab.record-1", "dataset:lab.record-2"):
        ensure_entities(states={parse_address(key): "live"})
    first = parse_address("dataset:lab.record-1")
    change_grants(
        grant=[
            ("user:alice", first, Privilege.READ),
            ("user:alice", first, Privilege.WRITE),
            ("group:readers", first, Privilege.READ),
        ]
    )


@pytest.fixture
def account(db):
    """Return a function that creates an account with a console role and a password."""

    def create_account(name, role=Role.ORDINARY):
        if not User.objects.filter(username=name).exists():
            add_user(name)
        user = User.objects.get(username=name)
        user.role = role
        user.set_password(PASSWORD)
        user.save()
        return user

    return create_account


def request(
    subject="alice", operation="read", resource="lab.record-1", kind="dataset", subject_type="user", **members
):
    return {
        "subject": {"type": subject_type, "id": subject},
        "action": {"name": operation},
        "resource": {"type": kind, "id": resource},
    } | members
