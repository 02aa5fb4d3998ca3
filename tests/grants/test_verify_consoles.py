"""Test that an empty console and the demo tenant verify, and that the verification reads one state."""

import io

import pytest
from django.core.management import CommandError, call_command

from grants.journal import Author
from grants.models import Role, User
from grants.verification.replay import first_fault
from tests.support.changes import add_user

pytestmark = pytest.mark.django_db


def test_an_empty_console_and_the_demo_tenant_verify():
    assert first_fault() is None
    call_command("import_tenant", "authzconsole/demo/tenant.jsonl", stdout=io.StringIO())
    assert first_fault() is None


@pytest.mark.django_db(transaction=True)
def test_the_verification_reads_one_state_outside_of_a_transaction():
    add_user("alice", author=Author("the tests"))
    assert first_fault() is None
    User.objects.filter(username="alice").update(role=Role.ADMINISTRATOR)
    with pytest.raises(CommandError, match="the console role of user:alice"):
        call_command("verify_journal")
