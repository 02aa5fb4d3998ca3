"""A role is added, gets groups and users, and loses them on its page."""

import pytest
from django.contrib.auth.models import Group

from grants.models import Membership, RoleGroup
from tests.support.changes import add_grant
from tests.support.pages import page_html, post_as_shown

pytestmark = pytest.mark.django_db
URL = "/people/role:stewards"


def test_a_role_gets_groups_and_users_and_loses_them(browse, htmx, django_assert_max_num_queries):
    client = browse("ada")
    response = post_as_shown(client, "/people/add", {"type": "role", "name": "stewards"})
    assert response.status_code == 303 and response.headers["Location"] == URL
    page = page_html(client.get(URL))
    assert "<strong>Role added</strong>" in page and "Group added" not in page
    add_grant("role:stewards", "dataset:sales.orders", "ADMIN")
    form = {"group": "role:stewards", "page": "role:stewards", "reason": "quarter"}
    for user in ("group:operators", "dee"):
        response = post_as_shown(client, "/people/membership", form | {"verb": "add", "user": user})
        assert response.status_code == 303 and response.headers["Location"] == URL
    assert {str(row) for row in RoleGroup.objects.all()} == {"group:operators in role:stewards"}
    assert Membership.objects.filter(group__name="role:stewards").get().user.username == "dee"

    with django_assert_max_num_queries(56):
        page = client.get(URL)
    assert page.context["members"]["total"] == 2
    text = page_html(page)
    assert '?type=role">Roles</a>' in text and "visible through this role" in text
    (row,) = client.get("/people/?type=role").context["page"].rows
    assert (row.name, row.total_members, row.total_grants) == ("role:stewards", 2, 1)
    assert "/people/role:stewards" in page_html(client.get("/people/group:operators"))
    assert '?type=role">Roles</a>' in page_html(client.get("/people/members/role:stewards"))
    assert "2 memberships end." in page_html(client.get("/people/remove/role:stewards"))

    removal = form | {"verb": "remove", "user": "group:operators"}
    assert "Remove from role" in page_html(client.get("/people/membership", removal, headers=htmx("dialog")))
    assert post_as_shown(client, "/people/membership", removal | {"strand": "yes"}).status_code == 303
    assert not RoleGroup.objects.exists() and Group.objects.filter(name="role:stewards").exists()
