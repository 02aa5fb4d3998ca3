"""`after` of GET /api/v1/journal lists the following lines, oldest first, and never waits where the server
cannot.
"""

import pytest

from grants.journal import current_revision
from tests.support.changes import add_group


@pytest.mark.django_db
def test_lines_after_a_revision_are_oldest_first_and_paged(browse):
    client, revision = browse("aud"), current_revision()
    for name in "abc":
        add_group(name)
    query = {"after": revision, "limit": 2, "wait": 30}
    page = client.get("/api/v1/journal", query).json()
    more = client.get("/api/v1/journal", query | {"cursor": page["next"], "wait": 0}).json()
    assert [line["principal"] for line in page["items"] + more["items"]] == ["group:a", "group:b", "group:c"]
    response = client.get("/api/v1/journal", {"after": revision + 3, "wait": 30})
    assert response.json() == {"items": [], "next": None} and "X-Console-Wait" not in response


@pytest.mark.django_db
def test_a_wait_needs_a_revision_after_which_to_wait(browse):
    assert browse("aud").get("/api/v1/journal", {"wait": 5}).status_code == 400
