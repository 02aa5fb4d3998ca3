import pytest
from django.test import Client

from tests.support.cast import create_sample_tenant


@pytest.fixture
def cast(db):
    return create_sample_tenant()


@pytest.fixture
def browse(cast):
    """Return a function: browse("ada") returns a client signed in as this user of the cast; browse(), an anonymous client."""
    def client_of(name: str = "") -> Client:
        client = Client()
        if name:
            client.force_login(cast[name])
        return client

    return client_of


@pytest.fixture
def htmx():
    """The headers with which htmx asks for the part with that id."""
    return lambda target: {"HX-Request": "true", "HX-Target": target}
