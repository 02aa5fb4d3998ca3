"""Statements of pages are planned each time, those of services once."""

import pytest
from django.db import connection

pytestmark = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite plans every statement anew")


def prepared_after() -> int | None:
    return connection.connection.prepare_threshold


def test_pages_use_no_prepared_statements_and_apis_do(browse):
    client = browse("ada")
    assert client.get("/entities/namespace:sales").status_code == 200
    assert prepared_after() is None
    assert client.get("/api/v1/entities").status_code == 200
    assert prepared_after() == connection.settings_dict["OPTIONS"]["prepare_threshold"] > 0
