"""Django's account commands write journal lines or refuse."""

import io

import pytest
from django.core.management import CommandError, call_command

from authzconsole.management.commands import changepassword
from grants.journal import Author, current_revision
from grants.models import JournalLine, User
from grants.principals.services import add_user

pytestmark = pytest.mark.django_db


def test_createsuperuser_is_refused():
    with pytest.raises(CommandError, match="bootstrap"):
        call_command("createsuperuser", username="eve", email="e@example.com", interactive=False)
    assert not User.objects.exists() and current_revision() == 0


def test_changepassword_writes_a_line(monkeypatch):
    add_user(author=Author("the tests"), name="dee")
    monkeypatch.setattr(changepassword.Command, "_get_pass", lambda *_: "correct horse battery")
    call_command("changepassword", "dee", stdout=io.StringIO())
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.actor, line.principal) == ("password-set", "changepassword", "user:dee")
    assert User.objects.get().check_password("correct horse battery")


@pytest.mark.parametrize(("name", "password"), [("nobody", "correct horse battery"), ("dee", "123")])
def test_changepassword_refuses_unknown_accounts_and_weak_passwords(monkeypatch, name, password):
    add_user(author=Author("the tests"), name="dee")
    monkeypatch.setattr(changepassword.Command, "_get_pass", lambda *_: password)
    with pytest.raises(CommandError):
        call_command("changepassword", name, stdout=io.StringIO())
    assert current_revision() == 1
