"""Statements of pages are planned for each execution; those of APIs are prepared."""

import pytest
from django.db import connection

pytestmark = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no prepare threshold")


def prepare_threshold() -> int | None:
    return connection.connection.prepare_threshold


def test_pages_use_no_prepared_statements_and_apis_do(browse):
    client = browse("ada")
    assert client.get("/entities/namespace:sales").status_code == 200
    assert prepare_threshold() is None
    assert client.get("/api/v1/entities").status_code == 200
    assert prepare_threshold() == connection.settings_dict["OPTIONS"]["prepare_threshold"] > 0
