"""The page that creates a plan from the roles of a report."""

import pytest
from django.contrib.auth.models import Group

from grants.models import Plan
from tests.support.changes import add_grant
from tests.support.pages import page_html, text_of
from tests.support.reports import create_report

ORDERS = "dataset:sales.orders"


@pytest.fixture
def run(cast, settings, tmp_path):
    """Create a report in which `dee` and `out` are role 1 and `grp` is role 2, of which `operators` has the users."""
    settings.SNAPSHOT_URI = str(tmp_path)
    for user in ("dee", "out", "grp"):
        add_grant(f"user:{user}", ORDERS, "READ")
    return create_report(
        tmp_path,
        {
            "rows": [(1, 2, 1, 2, ""), (2, 1, 1, 1, "operators")],
            "members": [(1, "dee"), (1, "out"), (2, "grp")],
            "permissions": [(1, ORDERS, "READ"), (2, ORDERS, "READ")],
            "coverage": [(1, 2, 2, 4, 0, "", 0, 0), (2, 1, 3, 4, 1, "operators", 1, 1)],
            "detail": [],
        },
        analysis="role-mining",
        revision=1,
        summary={},
    )


def test_the_report_leads_to_a_form_with_the_roles_and_names_from_which_a_plan_is_created(run, browse):
    Group.objects.create(name="role-1")
    client, url = browse("ada"), f"/plans/role-mining/{run.pk}"
    assert f'action="{url}"' in page_html(client.get(f"/analyses/{run.pk}/"))
    assert "Choose roles" not in page_html(browse("aud").get(f"/analyses/{run.pk}/"))
    assert "1 role-1-2 2 operators" in page_html(client.get(url))
    shown = page_html(client.get(url, {"size": "1"}))
    assert "1 role-1-2" in shown and "2 operators" not in shown
    page = client.post(url, {"roles": "1 Order readers\n2 operators\n"}, follow=True)
    text = text_of(page)
    assert "Replace direct grants by 2 groups" in text and "1 group to add" in text
    assert "new group" in text and "Order readers" in text and "to replace direct grants by groups" in text
    assert Plan.objects.get().effect["revokes"] == 3


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("x y", "line 1: `x` is not the number of a role"),
        ("1 a\n\n1 b", "line 3 repeats role 1: keep one of the two"),
        ("9 a", "have no role 9: choose another one"),
        ("1 operators", "are not exactly the users of role 1"),
        ("1 a\n2 a", "roles 1 and 2 have the same group a"),
    ],
)
def test_a_refused_form_says_why_and_keeps_what_was_entered(run, browse, roles, message):
    response = browse("ada").post(f"/plans/role-mining/{run.pk}", {"roles": roles})
    assert response.status_code in (400, 409) and message in text_of(response)
    assert roles.splitlines()[-1] in page_html(response) and not Plan.objects.exists()


def test_the_page_of_a_run_of_another_analysis_says_why_it_has_no_roles(run, browse, tmp_path):
    other = create_report(tmp_path, {"rows": []}, revision=1)
    response = browse("ada").get(f"/plans/role-mining/{other.pk}", follow=True)
    assert response.redirect_chain[-1][0] == f"/analyses/{other.pk}/"
    assert "only a report of role-mining has roles" in text_of(response)


def test_the_page_is_for_accounts_that_change_grants(run, browse):
    url = f"/plans/role-mining/{run.pk}"
    for name, status in (("aud", 403), ("ned", 404)):
        assert browse(name).get(url).status_code == status
        assert browse(name).post(url, {"roles": "1 a"}).status_code == status
    assert not Plan.objects.exists()


def test_a_slider_shows_what_the_first_roles_replace(run, browse, htmx):
    url = f"/analyses/{run.pk}/"
    for name in ("ada", "aud"):
        text = text_of(browse(name).get(url))
        assert (
            "The first 2 roles give 3 of 4 direct grants (75 %), with 3 memberships and 1 grant that nobody holds now"
            in text
        )
    part = browse("ada").get(url, {"size": "1"}, headers=htmx("role-size"))
    assert "The first 1 role gives 2 of 4 direct grants (50 %), with 2 memberships." in text_of(part)
    assert "<title>" not in page_html(part) and "operators" not in text_of(part)
    for size in ("0", "x", "99"):
        assert browse("ada").get(url, {"size": size}, headers=htmx("role-size")).status_code == 200


def test_a_report_without_roles_has_no_slider(cast, browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    tables = {name: [] for name in ("rows", "members", "permissions", "coverage", "detail")}
    run = create_report(tmp_path, tables, analysis="role-mining", revision=1, summary={})
    page = browse("ada").get(f"/analyses/{run.pk}/")
    assert page.status_code == 200 and "Number of roles" not in text_of(page)
