"""Access to pages by account: invisible pages are 404, visible but read-only ones 403, and 404 pages reveal
nothing.
"""

import pytest
from django.conf import settings
from django.test import Client

from entities.address import parse_address
from entities.services import ensure_entities
from grants.models import JournalLine
from tests.support.authors import database_state
from tests.support.cast import create_sample_tenant, created_for_several_tests
from tests.support.pages import without_tokens
from tests.web.conftest import create_numbers

ORDERS, SALARIES, NOWHERE = (
    "/entities/dataset:sales.orders",
    "/entities/dataset:hr.salaries",
    "/entities/dataset:sales.nothing",
)
PROGRAM = "/entities/program:sales.shop.workflow.daily"

# the status for: ada, aud, ned, dee, grp, out
EVERY_ACCOUNT = (200,) * 6
NO_ACCOUNT = (404,) * 6
NOT_WITH_GET = (405,) * 6
READERS = (200, 200, 404, 404, 404, 404)
ADMINISTRATOR = (200, 403, 404, 404, 404, 404)
MISSING_FOR_ADMINISTRATORS = (404, 403, 404, 404, 404, 404)

# the pages by the status for each account
PAGES_BY_STATUS: dict[tuple[int, ...], list[str]] = {
    EVERY_ACCOUNT: [
        "/",
        "/password",
        "/reauthenticate",
        "/sessions",
        "/time-zone",
        "/second-factor",
        "/second-factor/app",
        "/second-factor/passkey",
        "/search?q=orders",
        "/search?q=zq",
        "/ask",
        "/ask?subject=user:dee&operation=read&entity=dataset:hr.salaries",
        "/explorer",
        "/explorer/inside",
        "/requests/",
        "/requests/new",
        "/requests/catalogue",
        "/policies/",
        "/my-access",
        "/my-access/give-back?entity=dataset:sales.orders&privilege=READ",
        "/reviews/",
        "/findings/",
    ],
    NO_ACCOUNT: [
        "/findings/0/",
        "/findings.xls",
        "/docs",
        "/docs/index.html",
        "/my-access/give-back",
        "/requests/1/approve",
        "/requests/1/deny",
        "/requests/1/ask",
        "/requests/1/answer",
        "/requests/1/withdraw",
        "/second-factor/1/remove",
        "/explorer?at=dataset:sales.nothing",
        "/explorer?at=nonsense",
        "/accounts/user:nobody",
        "/accounts/group:operators",
        "/people/user:nobody",
        "/people/nonsense",
        "/people/user:",
        "/people/leaving/group:nobody",
        NOWHERE,
        "/entities/dataset:",
        "/entities/nonsense",
        "/entities/dataset:sales.b%00d",
        "/lifecycle/explode/dataset:sales.orders",
        "/forecast/namespace:nowhere?deleter=ned",
        "/forecast/nonsense",
        "/plans/0/",
        "/plans/99999999999999999999999/",
        "/requests/1/",
        "/journal/evidence/1/",
        "/journal/evidence/1.zip",
        "/journal/break-glass/1/",
        "/connections/none/",
        "/connections/none/drift",
        "/journal/webhooks/1/",
        "/policies/guardrails/none/",
        "/journal/security-events.xls",
        "/analyses/{run}/tables/nothing",
        "/analyses/{run}/tables/rows.xls",
        "/reviews/{review}/items.xls",
        "/reviews/{review}/evidence.zip",
        "/analyses/0/",
        "/nowhere",
    ],
    NOT_WITH_GET: [
        "/findings/mail",
        "/second-factor/codes",
        "/plans/ghosts",
        "/plans/redundant",
        "/plans/unused",
        "/plans/outliers",
        "/plans/patterns",
        "/plans/expired",
        "/journal/break-glass/start",
        "/journal/break-glass/1/end",
        "/journal/break-glass/1/review",
        "/connections/none/push",
        "/connections/none/run",
        "/journal/webhooks/1/change",
        "/reviews/{review}/answers",
        "/reviews/{review}/sign-off",
        "/reviews/{review}/cancel",
        "/reviews/{review}/retry",
        "/policies/scheduled/cancel",
        "/people/see-as",
        "/plans/copy",
        "/plans/{plan}/apply",
        "/plans/{plan}/apply/cancel",
        "/plans/{plan}/discard",
        "/effect/run",
        "/effect/run/cancel",
        "/plans/{plan}/effect",
        "/plans/{plan}/effect/cancel",
        "/plans/{plan}/undo",
        "/plans/{plan}/renew",
    ],
    READERS: [
        "/status",
        "/findings.csv",
        "/findings/rules",
        "/accounts/sessions/user:dee",
        "/explorer?at=dataset:hr.salaries",
        "/explorer/inside?in=namespace:hr&of=dataset",
        "/entities/instance:cdap",
        "/entities/namespace:hr",
        SALARIES,
        "/effect?change=%5B%22delete%22,%22dataset:sales.orders%22%5D",
        "/effect.csv?change=%5B%22delete%22,%22dataset:sales.orders%22%5D",
        "/suggest/principals?principal=n",
        "/limited?show=expired",
        "/requests/approvers",
        "/requests/delegation",
        "/journal/",
        "/journal/proof",
        "/journal/differences?of=dataset:sales.orders&since=1",
        "/journal.csv",
        "/journal/evidence",
        "/journal/break-glass",
        "/journal/webhooks",
        "/policies/guardrails/",
        "/connections/",
        "/journal/security-events",
        "/journal/security-events.jsonl",
        "/analyses/",
        "/trends",
        "/trends.csv",
        "/analyses/{run}/",
        "/forecast/namespace:sales",
        "/forecast/namespace:hr?deleter=ned",
        "/people/",
        "/people/compare?one=dee&other=ned",
        "/people/leaving/user:ned",
        "/people/user:dee",
        "/people/?type=group",
        "/people/group:operators",
        "/people/leaving/group:operators",
        "/accounts/tokens/",
        "/plans/",
        "/reviews/{review}/reviewers",
        "/plans/{plan}/",
    ],
    ADMINISTRATOR: [
        "/findings/change?verb=accept&number=1",
        "/stewards/namespace:sales",
        "/grant?principal=user:dee",
        "/register?parent=namespace:sales",
        "/plans/many",
        "/plans/many?within=namespace:sales",
        "/plans/many?address=dataset:sales.orders&address=nonsense",
        "/plans/import",
        "/plans/import/sample.csv",
        "/plans/import/sample.jsonl",
        "/policies/core/activate",
        "/policies/guardrails/new",
        "/policies/guardrails/new?form=forbid_both",
        "/policies/guardrails/new?form=require",
        "/policies/guardrails/new?form=expect",
        "/connections/new",
        "/connections/new?type=hive",
        "/journal/webhooks/new",
        "/trends/alerts/new",
        "/analyses/nightly/visibility",
        "/people/add",
        "/people/membership?verb=remove&user=grp&group=operators",
        "/people/rename/user:dee",
        "/people/remove/group:operators",
        "/people/like?source=ned&target=dee",
        "/people/membership?verb=add&user=dee&group=operators",
        "/people/members/group:operators",
        "/people/manager/user:dee",
        "/accounts/change/user:dee?change=activity&active=no",
        "/accounts/invite",
        "/accounts/password/user:dee",
        "/accounts/second-factor/user:dee",
        "/accounts/tokens/new",
        "/accounts/tokens/{token}/revoke",
        "/reviews/new",
        "/reviews/{review}/finish",
        "/plans/readiness?namespace=namespace:sales&user=dee&generation=final",
        "/plans/missing?address=namespace:sales&subject=user:dee&operation=delete",
    ],
    MISSING_FOR_ADMINISTRATORS: [
        "/policies/guardrails/none/edit",
        "/connections/none/edit",
        "/connections/none/delete",
        "/stewards/dataset:sales.orders",
        "/stewards/namespace:nowhere",
        "/plans/many?within=dataset:sales.orders",
        "/plans/many?within=namespace:nowhere",
        "/plans/import/sample.xls",
        "/analyses/nightly/nothing",
        "/accounts/identities/1/unlink",
        "/accounts/tokens/0/revoke",
        "/accounts/change/user:dee?change=role&role=king",
        "/accounts/change/user:dee?change=name",
        "/accounts/change/user:nobody?change=email",
        "/plans/missing",
    ],
    (303, 303, 303, 303, 200, 200): [
        "/ask?subject=user:dee&operation=read&entity=orders",
    ],
    (200, 200, 200, 200, 404, 404): [
        "/explorer?at=dataset:sales.orders",
        ORDERS,
        "/entities/DATASET:sales.orders",
    ],
    (200, 200, 200, 200, 200, 404): [
        "/explorer/inside?in=namespace:sales",
        "/entities/namespace:sales",
    ],
    (200, 200, 200, 404, 200, 404): [
        PROGRAM,
    ],
    (200, 200, 404, 404, 200, 404): [
        "/entities/dataset:sales.forecast",
    ],
    (200, 200, 404, 200, 404, 404): [
        "/entities/dataset:sales.legacy",
    ],
    (200, 403, 403, 403, 404, 404): [
        "/grant/dataset:sales.orders",
        "/revoke/dataset:sales.orders?principal=user:dee&privilege=READ",
        "/lifecycle/delete/dataset:sales.orders",
        "/describe/dataset:sales.orders",
        "/publish/dataset:sales.orders",
    ],
    (204, 204, 204, 204, 204, 204): [
        "/requests/count",
        "/findings/count",
    ],
    (303, 303, 404, 404, 404, 404): [
        "/analyses/{run}/missing",
        "/analyses/{run}/tables/changes",
        "/analyses/{run}/tables/rows.csv",
    ],
    (302, 302, 404, 404, 404, 404): [
        "/accounts/",
        "/accounts/user:dee",
    ],
    (204, 204, 200, 204, 204, 204): [
        "/reviews/count",
    ],
    (200, 200, 200, 404, 404, 404): [
        "/reviews/{review}/",
        "/reviews/{review}/?answer=all&reviewer=ned",
        "/reviews/{review}/items.csv",
        "/reviews/{review}/items.jsonl",
    ],
    (303, 403, 404, 404, 404, 404): [
        "/plans/readiness",
        "/plans/policy-impact/{run}",
        "/plans/role-mining/{run}",
    ],
}
PAGES = [(url, *statuses) for statuses, urls in PAGES_BY_STATUS.items() for url in urls]

# POST, by the status for: aud, ned, dee, out
WRITES_BY_STATUS = {
    (303, 404, 404, 404): [
        "/findings/mail",
    ],
    (403, 404, 404, 404): [
        "/findings/change",
        "/findings/rules",
        "/people/membership",
        "/reviews/new",
        "/reviews/{review}/finish",
        "/reviews/{review}/cancel",
        "/reviews/{review}/retry",
        "/grant/dataset:hr.salaries",
        "/grant/dataset:sales.nothing",
        "/stewards/namespace:sales",
        "/grant",
        "/register",
        "/plans/many",
        "/plans/ghosts",
        "/plans/redundant",
        "/plans/unused",
        "/plans/outliers",
        "/plans/patterns",
        "/plans/expired",
        "/plans/copy",
        "/plans/import",
        "/plans/missing",
        "/plans/{plan}/apply",
        "/plans/{plan}/apply/cancel",
        "/plans/{plan}/discard",
        "/plans/{plan}/renew",
        "/plans/{plan}/undo",
        "/people/add",
        "/people/like",
        "/people/leaving/user:ned",
        "/people/rename/user:dee",
        "/people/remove/user:out",
        "/people/members/group:operators",
        "/people/manager/user:dee",
        "/requests/approvers",
        "/requests/delegation",
        "/policies/guardrails/new",
        "/policies/guardrails/none/edit",
        "/policies/core/activate",
        "/policies/scheduled/cancel",
        "/accounts/change/user:dee",
        "/accounts/invite",
        "/accounts/password/user:dee",
        "/accounts/tokens/new",
        "/accounts/tokens/{token}/revoke",
        "/people/add",
        "/accounts/second-factor/user:dee",
        "/accounts/identities/1/unlink",
        "/journal/break-glass/start",
        "/journal/break-glass/1/end",
        "/journal/break-glass/1/review",
        "/connections/new?type=hive",
        "/connections/none/edit",
        "/connections/none/delete",
        "/connections/none/push",
        "/connections/none/run",
        "/journal/webhooks/new",
        "/journal/webhooks/1/change",
        "/trends/alerts/new",
        "/trends/alerts/1/delete",
        "/analyses/check",
        "/analyses/start",
        "/analyses/{run}/cancel",
        "/analyses/nightly",
        "/analyses/nightly/visibility",
    ],
    (404, 404, 404, 404): [
        "/policies/guardrails/none/",
        "/my-access/give-back",
    ],
    (400, 400, 404, 404): [
        "/reviews/{review}/answers",
        "/reviews/{review}/sign-off",
    ],
    (403, 403, 403, 404): [
        "/grant/dataset:sales.orders",
        "/publish/dataset:sales.orders",
        "/revoke/dataset:sales.orders",
        "/lifecycle/delete/dataset:sales.orders",
        "/describe/dataset:sales.orders",
    ],
}
# sent to each of them
FORM = {
    "principal": "user:out",
    "privilege": "READ",
    "parent": "namespace:sales",
    "kind": "dataset",
    "name": "x",
    "analysis": "delete-readiness",
    "description": "x",
}
WRITES = [(url, *statuses) for statuses, urls in WRITES_BY_STATUS.items() for url in urls]


class SharedData:
    """The users with a session for each, and the numbers in the URLs."""

    def __init__(self):
        self.cast = create_sample_tenant()
        self.numbers = create_numbers(self.cast)
        self.sessions = {name: _sign_in(user) for name, user in self.cast.items()}


@pytest.fixture(scope="module")
def shared_data(django_db_setup, django_db_blocker):
    """The data of all tests of this module; each test rolls its own changes back."""
    with created_for_several_tests(SharedData, django_db_blocker) as data:
        yield data


@pytest.fixture
def cast(shared_data, db):
    return shared_data.cast


@pytest.fixture
def numbers(shared_data, db):
    return shared_data.numbers


@pytest.fixture
def browse(shared_data, db):
    """Return the same function as the fixture `browse` of the other tests, but with the shared sessions."""

    def client_of(name=""):
        client = Client()
        if name:
            client.cookies[settings.SESSION_COOKIE_NAME] = shared_data.sessions[name]
        return client

    return client_of


def _sign_in(user) -> str:
    """Return the key of a new session."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.mark.parametrize(("page", "statuses"), [(page, statuses) for page, *statuses in PAGES])
def test_each_page_has_the_expected_status_for_each_account(page, statuses, browse, numbers):
    actual = [
        browse(name).get(page.format(**numbers)).status_code
        for name in ("ada", "aud", "ned", "dee", "grp", "out")
    ]
    assert actual == statuses


@pytest.mark.parametrize("page", [page for page, *_ in PAGES if page != "/nowhere"])
def test_every_page_redirects_anonymous_users_to_sign_in(page, browse, numbers):
    response = browse().get(page.format(**numbers))
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/sign-in?next=/")


@pytest.mark.parametrize(("url", "statuses"), [(url, statuses) for url, *statuses in WRITES])
def test_only_administrators_can_write(url, statuses, browse, numbers):
    before = database_state()
    url = url.format(**numbers)
    assert [browse(name).post(url, FORM).status_code for name in ("aud", "ned", "dee", "out")] == statuses
    assert database_state() == before


def test_an_invisible_entity_and_a_missing_one_have_the_same_page(browse):
    unseen, absent = (
        without_tokens(browse("dee").get(url)).replace(url.removeprefix("/entities/"), "ADDRESS")
        for url in (SALARIES, NOWHERE)
    )
    assert unseen == absent


@pytest.mark.parametrize(
    "page", ["/entities/{}", "/explorer?at={}", "/ask?subject=user:dee&operation=read&entity={}"]
)
def test_the_queries_do_not_tell_an_invisible_entity_from_a_missing_one(
    browse, page, django_assert_max_num_queries
):
    client = browse("dee")

    def query_count(url: str) -> int:
        with django_assert_max_num_queries(60) as captured:
            client.get(page.format(url.removeprefix("/entities/")))
        return len(captured.captured_queries)

    query_count(NOWHERE)  # fills caches
    assert query_count(SALARIES) == query_count(NOWHERE)


def test_an_ordinary_account_sees_no_other_principals(browse):
    for url in ("/", "/entities/namespace:sales", ORDERS, f"{ORDERS}?operation=read", "/search?q=sales"):
        text = browse("dee").get(url).content.decode()
        for name in ("ned", "grp", "ina", "out", "operators"):
            assert f">{name}<" not in text and f"user:{name}" not in text and f"group:{name}" not in text


def test_hidden_entities_do_not_turn_a_permit_into_a_denial(browse):
    ensure_entities(states={parse_address("stream:sales.clicks"): "live"})
    response = browse("ned").get("/entities/namespace:sales?operation=delete-all-streams&generation=existing")
    decision, text = response.context["ask"]["answer"], response.content.decode()
    assert (
        decision.is_permitted and decision.sentence == "Permitted: user:ned holds ADMIN on namespace:sales."
    )
    answer = text.split('id="answer"')[1].split("All generations")[0]
    assert decision.sentence in answer and "Denied" not in answer and "clicks" not in text


def test_a_denial_lists_all_missing_grants_for_an_auditor(browse):
    response = browse("aud").get("/entities/namespace:sales?operation=delete&subject=user:dee")
    assert {str(address) for address, _ in response.context["ask"]["missing"]} >= {"dataset:sales.customers"}


def test_counts_include_only_visible_entities(browse):
    totals = {
        name: browse(name).get("/entities/namespace:sales").context["children"]["total"]
        for name in ("ada", "dee", "grp")
    }
    assert totals == {"ada": 6, "dee": 2, "grp": 2}
    inside = browse("dee").get("/").context["namespaces"]["rows"][0]["inside"]
    assert inside == [("dataset", "1 dataset", 1)]


def test_readiness_is_withheld_from_ordinary_accounts(browse, htmx):
    assert browse("ned").get("/entities/namespace:sales?tab=ask").context["readiness"] is None
    assert browse("ned").get("/entities/namespace:sales", headers=htmx("readiness")).status_code == 404


def test_an_auditor_gets_no_forms_that_write(browse):
    for url in ("/", "/entities/namespace:sales", ORDERS, "/analyses/"):
        text = browse("aud").get(url).content.decode().replace('action="/sign-out" method="post"', "")
        assert 'method="post"' not in text
        assert "/revoke/" not in text and "/grant/" not in text and "/lifecycle/" not in text


def test_get_requests_write_no_journal_line(browse, numbers):
    before = JournalLine.objects.count()
    for page, *_ in PAGES:
        browse("ada").get(page.format(**numbers))
    assert JournalLine.objects.count() == before
