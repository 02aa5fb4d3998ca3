"""Every page for the roles security administrator, approver and operator.

An account of these roles gets the same answers as an account without a role (`out`), an approver the same as
an auditor (`aud`), except for the pages that are listed here.
"""

import pytest

from tests.support.authors import database_state
from tests.support.cast import create_role_accounts
from tests.web.test_access import FORM, PAGES, WRITES
from tests.web.test_access import cast as cast
from tests.web.test_access import numbers as numbers
from tests.web.test_access import shared_data as shared_data

BASELINE = {"sec": "out", "app": "aud", "ope": "out"}
# the columns of PAGES and of WRITES
PAGE_COLUMN, WRITE_COLUMN = {"aud": 2, "out": 6}, {"aud": 1, "out": 4}
SECURITY = {
    "/accounts/sessions/user:dee": 200,
    "/suggest/principals?principal=n": 200,
    "/journal/security-events": 200,
    "/journal/security-events.jsonl": 200,
    "/people/": 200,
    "/people/?type=group": 200,
    "/people/add": 200,
    "/people/user:dee": 302,
    "/accounts/": 302,
    "/accounts/user:dee": 200,
    "/accounts/change/user:dee?change=activity&active=no": 200,
    "/accounts/invite": 200,
    "/accounts/password/user:dee": 200,
    "/accounts/second-factor/user:dee": 200,
    "/accounts/tokens/": 200,
    "/accounts/tokens/new": 200,
    "/accounts/tokens/{token}/revoke": 200,
}
HIDDEN_FROM_APPROVERS = (
    "/status",
    "/accounts/",
    "/journal",
    "/analyses/",
    "/findings/change",
    "/findings/mail",
    "/findings/rules",
    "/findings.",
    "/trends",
)
OPERATION = {
    "/status": 200,
    "/analyses/": 200,
    "/trends": 200,
    "/trends.csv": 200,
    "/trends/alerts/new": 403,
    "/analyses/nightly/visibility": 200,
    "/analyses/{run}/": 200,
    "/analyses/{run}/missing": 303,
    "/analyses/{run}/tables/changes": 303,
    "/analyses/{run}/tables/rows.csv": 303,
}
# approvers publish what they decide about
APPROVAL = {"/publish/dataset:sales.orders": 200}
# WRITES that change something for the role
SECURITY_WRITES = {
    # the form is incomplete
    "/accounts/invite": 400,
    "/accounts/password/user:dee": 200,
    "/accounts/second-factor/user:dee": 302,
    "/accounts/tokens/{token}/revoke": 302,
    "/people/add": 302,
    # the form is incomplete
    "/accounts/tokens/new": 400,
}
# the form is incomplete
APPROVAL_WRITES = {"/publish/dataset:sales.orders": 400}
OPERATION_WRITES = {
    "/analyses/check": 302,
    "/analyses/start": 302,
    "/analyses/{run}/cancel": 302,
    "/analyses/nightly": 302,
    "/trends/alerts/new": 403,
    "/trends/alerts/1/delete": 403,
    # the form is incomplete
    "/analyses/nightly/visibility": 400,
}


@pytest.fixture
def accounts(cast):
    cast.update(create_role_accounts())
    return cast


def expected_status(
    name: str, url: str, statuses: tuple[int, ...], exceptions: dict[str, int], column: int
) -> int:
    if name == "app" and url.startswith(HIDDEN_FROM_APPROVERS):
        # a page that accepts no GET says so to every account
        return 405 if statuses[column] == 405 else 404
    return exceptions.get(url, statuses[column])


@pytest.mark.parametrize(("name", "exceptions"), [("sec", SECURITY), ("app", APPROVAL), ("ope", OPERATION)])
def test_each_role_opens_exactly_its_pages(name, exceptions, accounts, browse, numbers):
    client, column = browse(name), PAGE_COLUMN[BASELINE[name]] - 1
    actual = {url: client.get(url.format(**numbers)).status_code for url, *_ in PAGES}
    assert actual == {
        url: expected_status(name, url, statuses, exceptions, column) for url, *statuses in PAGES
    }
    assert exceptions.keys() <= actual.keys()


@pytest.mark.parametrize(
    ("name", "exceptions"), [("sec", SECURITY_WRITES), ("app", APPROVAL_WRITES), ("ope", OPERATION_WRITES)]
)
def test_each_role_changes_only_what_it_may(name, exceptions, accounts, browse, numbers):
    client, column, before = browse(name), WRITE_COLUMN[BASELINE[name]] - 1, database_state()
    refused = [row for row in WRITES if row[0] not in exceptions]
    actual = {url: client.post(url.format(**numbers), FORM).status_code for url, *_ in refused}
    assert actual == {url: expected_status(name, url, statuses, {}, column) for url, *statuses in refused}
    assert database_state() == before
    allowed = {url: client.post(url.format(**numbers), FORM).status_code for url in exceptions}
    assert {url: 302 if status in (302, 303) else status for url, status in allowed.items()} == exceptions


def test_a_security_administrator_sees_no_grants_on_the_pages_of_accounts(accounts, browse):
    client = browse("sec")
    people = client.html("/people/")
    assert "/accounts/user:ned" in client.get("/people/user:ned").headers["Location"]
    assert "Direct grants" not in people and "operators" not in people and "Add group" not in people
    for url in ("/accounts/user:ned", "/accounts/change/user:ned?change=activity&active=no"):
        text = client.html(url)
        assert "sales" not in text and "direct grant" not in text


def test_a_security_administrator_does_not_open_the_forms_of_accounts_with_other_rights(accounts, browse):
    client = browse("sec")
    for name in ("ada", "aud", "app", "ope"):
        page = client.html(f"/accounts/user:{name}")
        assert not any(
            form in page for form in ("Set role", "Save email", "change-password", "change-activity")
        )
        for url in (
            f"/accounts/password/user:{name}",
            f"/accounts/change/user:{name}?change=role&role=ordinary",
        ):
            assert client.get(url).status_code == client.post(url, {}).status_code == 403
    form = client.html("/accounts/user:dee")
    assert (
        'value="security-administrator"' in form
        and 'value="administrator"' not in form
        and 'value="auditor"' not in form
    )


@pytest.mark.parametrize(
    ("name", "items"),
    [
        ("sec", {"Users and groups", "Security events"}),
        ("app", {"Users and groups", "Plans"}),
        ("ope", {"Analyses", "Status"}),
    ],
)
def test_the_navigation_has_the_pages_of_the_role(name, items, accounts, browse):
    shown = {item["title"] for item in browse(name).get("/").context["nav_items"]}
    assert shown & {"Users and groups", "Plans", "Analyses", "Journal", "Status", "Security events"} == items


def test_an_approver_sees_no_reports_and_no_journal_on_other_pages(accounts, browse):
    client = browse("app")
    for url in ("/", "/entities/dataset:sales.orders", "/people/user:ned"):
        text = client.html(url)
        assert "/journal" not in text and "/analyses" not in text and 'action="/people/see-as"' not in text, (
            url
        )
    assert [tab.name for tab in client.get("/entities/dataset:sales.orders").context["tabs"]] == [
        "access",
        "ask",
    ]
    assert "namespace:hr" in client.html("/")
