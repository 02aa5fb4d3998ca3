"""The first call that the page of a new token shows works as it is written."""

import json
import subprocess

import pytest

from authzconsole.common.tokens import create_token
from authzconsole.web.accounts.tokens import first_call
from grants.models import User
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("owner", "scopes", "member"),
    [
        ("ada", ["read", "administer"], "items"),
        ("ada", ["administer"], "effect"),
        ("ada", ["decide"], "decision"),
        ("out", ["self"], "decision"),
        ("robot", ["provision"], "Resources"),
    ],
)
def test_the_first_call_of_each_scope_is_answered(owner, scopes, member, live_server, settings):
    create_sample_tenant()
    settings.PUBLIC_URL, settings.SCIM_ENABLED = live_server.url, True
    if owner == "robot":
        User.objects.create_user(owner, password=None, is_principal=False, is_service=True)
    issued = create_token(author=COMMAND, owner=owner, name="first", scopes=scopes, days=1)
    done = subprocess.run(
        ["sh", "-c", first_call(issued.token, issued.secret)], capture_output=True, text=True
    )
    assert member in json.loads(done.stdout), done.stdout + done.stderr
