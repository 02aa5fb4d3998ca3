"""Invitations over REST."""

import pytest
from django.core import mail

from grants.models import JournalLine
from grants.principals.services import set_user_role
from tests.rest.conftest import problem
from tests.support.authors import account, author_named, database_state
from tests.support.cast import create_role_accounts
from tests.support.changes import add_user, rename_user

pytestmark = pytest.mark.django_db

PATH = "/invitations"


@pytest.fixture
def new(cast) -> str:
    add_user("new")
    return "new"


def opens(rest, url: str) -> bool:
    path = url.removeprefix("http://127.0.0.1:8000")
    return b"Set password" in rest().client.get(path, follow=True).content


def test_an_invitation_is_made_listed_and_cancelled(ada, new, by_session):
    answer = ada.post(PATH, {"user": new, "reason": "joins"})
    assert answer.status_code == 201 and answer["Cache-Control"] == "no-store"
    url = answer.json()["url"]
    assert opens(by_session, url)
    (listed,) = ada.get(PATH).json()["items"]
    assert (listed["user"], listed["invited_by"]) == (new, "ada") and url not in str(listed)
    assert ada.delete(PATH, query=f"?user={new}").json()["changed"] is True
    assert ada.delete(PATH, query=f"?user={new}").json()["changed"] is False
    assert not opens(by_session, url)
    assert ada.get(PATH).json()["items"] == []
    actions = JournalLine.objects.filter(principal="user:new").order_by("revision")
    assert [line.action for line in actions] == ["user-add", "user-invite", "user-invite-cancel"]


def test_a_link_that_was_sent_by_mail_is_not_in_the_response(ada, new, settings):
    settings.EMAIL_HOST = "mail.example.com"
    ada.patch("/users/new", {"email": "new@example.com"}, If_Match="*")
    assert ada.post(PATH, {"user": new}).json() == {"user": new, "email": "new@example.com", "url": None}
    assert "/invitation/" in mail.outbox[-1].body


def test_a_user_with_a_password_is_neither_invited_nor_changed_by_a_cancellation(ada, new):
    assert ada.post(PATH, {"user": new}).status_code == 201
    user = account(new)
    user.set_password("correct horse battery staple")
    user.save()
    assert ada.get(PATH).json()["items"] == []
    before = database_state()
    assert "password already" in problem(ada.post(PATH, {"user": new}), 409)["detail"]
    assert ada.delete(PATH, query=f"?user={new}").json()["changed"] is False
    assert database_state() == before and account(new).check_password("correct horse battery staple")


def test_a_security_administrator_cannot_take_over_an_administrator_with_an_invitation(cast, by_session):
    cast.update(create_role_accounts())
    security = by_session("sec")
    add_user("boss", role="administrator")
    # an account that exists but may not be managed
    for answer in (
        security.post(PATH, {"user": "boss"}),
        security.delete(PATH, query="?user=boss"),
    ):
        problem(answer, 403)
    assert not JournalLine.objects.filter(action__startswith="user-invite").exists()


def test_an_invitation_that_expired_is_not_open_in_the_list_nor_for_a_cancellation(ada, new, settings):
    ada.post(PATH, {"user": new})
    settings.FIRST_PASSWORD_HOURS = 0
    assert ada.get(PATH).json()["items"] == []
    assert ada.delete(PATH, query=f"?user={new}").json()["changed"] is False
    assert not JournalLine.objects.filter(action="user-invite-cancel").exists()


def test_a_user_who_was_never_invited_has_no_invitation_to_cancel(ada, new):
    assert ada.delete(PATH, query=f"?user={new}").json()["changed"] is False


@pytest.mark.parametrize("renamed", [True, False])
def test_a_link_that_is_not_listed_but_works_can_be_cancelled(ada, new, by_session, renamed):
    """After a rename, or when the role is what it was when the link was made."""
    url, name = ada.post(PATH, {"user": new}).json()["url"], new
    if renamed:
        for name in ("newer", "newest"):
            rename_user(name={"newer": "new", "newest": "newer"}[name], new_name=name)
    else:
        for role in ("auditor", "ordinary"):
            set_user_role(author=author_named("ada"), name=new, role=role)
    assert ada.get(PATH).json()["items"] == [] and opens(by_session, url)
    assert ada.delete(PATH, query=f"?user={name}").json()["changed"] is True
    assert not opens(by_session, url)
    assert ada.delete(PATH, query=f"?user={name}").json()["changed"] is False
