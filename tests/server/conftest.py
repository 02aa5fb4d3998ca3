import re

import pytest
from django.db import connection

from tests.support.web_server import manage, prepare_state, web_server

GRACE_SECONDS = 4


@pytest.fixture(scope="session")
def state(tmp_path_factory, django_db_setup, django_db_blocker):
    """A state folder with a migrated database; `state.password` and `state.token` belong to its
    administrator.
    """
    if connection.vendor != "sqlite":
        pytest.skip("the server does not depend on the database")
    folder = tmp_path_factory.mktemp("web")
    with django_db_blocker.unblock():
        database = connection.settings_dict["NAME"]
    password = prepare_state(folder, database)
    token = re.search(
        r"azc_\S+",
        manage(
            folder, "create_token", "admin", "--scope", "decide", "--scope", "read", "--scope", "administer"
        ),
    )[0]
    return folder, password, token


@pytest.fixture(scope="session")
def server(state):
    """The web server with the defaults of `make run`, but a shorter deadline for bodies."""
    with web_server(state[0], BODY_GRACE_SECONDS=str(GRACE_SECONDS)) as running:
        yield running


@pytest.fixture(scope="session")
def password(state):
    return state[1]


@pytest.fixture(scope="session")
def token(state):
    return state[2]
