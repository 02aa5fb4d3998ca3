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

PAGES = [
    # page, then the status for: ada, aud, ned, dee, grp, out
    ("/", 200, 200, 200, 200, 200, 200),
    ("/status", 200, 200, 404, 404, 404, 404),
    ("/password", 200, 200, 200, 200, 200, 200),
    ("/reauthenticate", 200, 200, 200, 200, 200, 200),
    ("/sessions", 200, 200, 200, 200, 200, 200),
    ("/time-zone", 200, 200, 200, 200, 200, 200),
    ("/accounts/sessions/user:dee", 200, 200, 404, 404, 404, 404),
    ("/second-factor", 200, 200, 200, 200, 200, 200),
    ("/second-factor/app", 200, 200, 200, 200, 200, 200),
    ("/second-factor/passkey", 200, 200, 200, 200, 200, 200),
    ("/second-factor/codes", 405, 405, 405, 405, 405, 405),
    ("/second-factor/1/remove", 404, 404, 404, 404, 404, 404),
    ("/search?q=orders", 200, 200, 200, 200, 200, 200),
    ("/search?q=zq", 200, 200, 200, 200, 200, 200),
    ("/ask", 200, 200, 200, 200, 200, 200),
    ("/ask?subject=user:dee&operation=read&entity=dataset:hr.salaries", 200, 200, 200, 200, 200, 200),
    ("/ask?subject=user:dee&operation=read&entity=orders", 303, 303, 303, 303, 200, 200),
    ("/explorer", 200, 200, 200, 200, 200, 200),
    ("/explorer?at=dataset:sales.orders", 200, 200, 200, 200, 404, 404),
    ("/explorer?at=dataset:hr.salaries", 200, 200, 404, 404, 404, 404),
    ("/explorer?at=dataset:sales.nothing", 404, 404, 404, 404, 404, 404),
    ("/explorer?at=nonsense", 404, 404, 404, 404, 404, 404),
    ("/explorer/inside", 200, 200, 200, 200, 200, 200),
    ("/explorer/inside?in=namespace:sales", 200, 200, 200, 200, 200, 404),
    ("/explorer/inside?in=namespace:hr&of=dataset", 200, 200, 404, 404, 404, 404),
    ("/entities/instance:cdap", 200, 200, 404, 404, 404, 404),
    ("/entities/namespace:sales", 200, 200, 200, 200, 200, 404),
    ("/entities/namespace:hr", 200, 200, 404, 404, 404, 404),
    (ORDERS, 200, 200, 200, 200, 404, 404),
    (SALARIES, 200, 200, 404, 404, 404, 404),
    (PROGRAM, 200, 200, 200, 404, 200, 404),
    ("/entities/dataset:sales.forecast", 200, 200, 404, 404, 200, 404),
    ("/entities/dataset:sales.legacy", 200, 200, 404, 200, 404, 404),
    (NOWHERE, 404, 404, 404, 404, 404, 404),
    ("/entities/dataset:", 404, 404, 404, 404, 404, 404),
    ("/entities/nonsense", 404, 404, 404, 404, 404, 404),
    ("/entities/DATASET:sales.orders", 200, 200, 200, 200, 404, 404),
    ("/entities/dataset:sales.b%00d", 404, 404, 404, 404, 404, 404),
    ("/grant/dataset:sales.orders", 200, 403, 403, 403, 404, 404),
    ("/revoke/dataset:sales.orders?principal=user:dee&privilege=READ", 200, 403, 403, 403, 404, 404),
    ("/lifecycle/delete/dataset:sales.orders", 200, 403, 403, 403, 404, 404),
    ("/lifecycle/explode/dataset:sales.orders", 404, 404, 404, 404, 404, 404),
    ("/describe/dataset:sales.orders", 200, 403, 403, 403, 404, 404),
    ("/stewards/namespace:sales", 200, 403, 404, 404, 404, 404),
    ("/stewards/dataset:sales.orders", 404, 403, 404, 404, 404, 404),
    ("/stewards/namespace:nowhere", 404, 403, 404, 404, 404, 404),
    ("/effect?change=%5B%22delete%22,%22dataset:sales.orders%22%5D", 200, 200, 404, 404, 404, 404),
    ("/effect.csv?change=%5B%22delete%22,%22dataset:sales.orders%22%5D", 200, 200, 404, 404, 404, 404),
    ("/effect/form?change=%5B%22delete%22,%22dataset:sales.orders%22%5D", 200, 200, 404, 404, 404, 404),
    ("/register?parent=namespace:sales", 200, 403, 404, 404, 404, 404),
    ("/suggest/principals?principal=n", 200, 200, 404, 404, 404, 404),
    ("/plans/many", 200, 403, 404, 404, 404, 404),
    ("/plans/many?within=namespace:sales", 200, 403, 404, 404, 404, 404),
    ("/plans/many?within=dataset:sales.orders", 404, 403, 404, 404, 404, 404),
    ("/plans/many?within=namespace:nowhere", 404, 403, 404, 404, 404, 404),
    ("/plans/many?address=dataset:sales.orders&address=nonsense", 200, 403, 404, 404, 404, 404),
    ("/plans/ghosts", 405, 405, 405, 405, 405, 405),
    ("/plans/expired", 405, 405, 405, 405, 405, 405),
    ("/limited?show=expired", 200, 200, 404, 404, 404, 404),
    ("/plans/import", 200, 403, 404, 404, 404, 404),
    ("/plans/import/sample.csv", 200, 403, 404, 404, 404, 404),
    ("/plans/import/sample.jsonl", 200, 403, 404, 404, 404, 404),
    ("/plans/import/sample.xls", 404, 403, 404, 404, 404, 404),
    ("/requests/", 200, 200, 200, 200, 200, 200),
    ("/requests/count", 204, 204, 204, 204, 204, 204),
    ("/requests/new", 200, 200, 200, 200, 200, 200),
    ("/requests/approvers", 200, 200, 404, 404, 404, 404),
    ("/requests/delegation", 200, 200, 404, 404, 404, 404),
    ("/requests/1/", 404, 404, 404, 404, 404, 404),
    *((f"/requests/1/{step}", *[405] * 6) for step in ("approve", "deny", "ask", "answer", "withdraw")),
    ("/policies/", 200, 200, 200, 200, 200, 200),
    ("/policies/core/activate", 200, 403, 404, 404, 404, 404),
    ("/journal/", 200, 200, 404, 404, 404, 404),
    ("/journal/proof", 200, 200, 404, 404, 404, 404),
    ("/journal/differences?of=dataset:sales.orders&since=1", 200, 200, 404, 404, 404, 404),
    ("/journal.csv", 200, 200, 404, 404, 404, 404),
    ("/journal/evidence", 200, 200, 404, 404, 404, 404),
    ("/journal/evidence/1/", 404, 404, 404, 404, 404, 404),
    ("/journal/evidence/1.zip", 404, 404, 404, 404, 404, 404),
    ("/journal/break-glass", 200, 200, 404, 404, 404, 404),
    ("/journal/break-glass/start", 405, 405, 405, 405, 405, 405),
    ("/journal/break-glass/1/", 404, 404, 404, 404, 404, 404),
    ("/journal/break-glass/1/end", 405, 405, 405, 405, 405, 405),
    ("/journal/break-glass/1/review", 405, 405, 405, 405, 405, 405),
    ("/journal/webhooks", 200, 200, 404, 404, 404, 404),
    ("/journal/webhooks/new", 200, 403, 404, 404, 404, 404),
    ("/journal/webhooks/1/", 404, 404, 404, 404, 404, 404),
    ("/journal/webhooks/1/change", 405, 405, 405, 405, 405, 405),
    ("/journal/security-events", 200, 200, 404, 404, 404, 404),
    ("/journal/security-events.jsonl", 200, 200, 404, 404, 404, 404),
    ("/journal/security-events.xls", 404, 404, 404, 404, 404, 404),
    ("/analyses/", 200, 200, 404, 404, 404, 404),
    ("/analyses/nightly/visibility", 200, 403, 404, 404, 404, 404),
    ("/analyses/nightly/nothing", 404, 403, 404, 404, 404, 404),
    ("/analyses/{run}/", 200, 200, 404, 404, 404, 404),
    ("/analyses/{run}/missing", 303, 303, 404, 404, 404, 404),
    ("/analyses/{run}/tables/changes", 303, 303, 404, 404, 404, 404),
    ("/analyses/{run}/tables/nothing", 404, 404, 404, 404, 404, 404),
    ("/analyses/{run}/tables/rows.csv", 303, 303, 404, 404, 404, 404),
    ("/analyses/{run}/tables/rows.xls", 404, 404, 404, 404, 404, 404),
    ("/forecast/namespace:sales", 200, 200, 404, 404, 404, 404),
    ("/people/", 200, 200, 404, 404, 404, 404),
    ("/people/add", 200, 403, 404, 404, 404, 404),
    ("/people/compare?one=dee&other=ned", 200, 200, 404, 404, 404, 404),
    ("/people/rename/user:dee", 200, 403, 404, 404, 404, 404),
    ("/people/remove/group:operators", 200, 403, 404, 404, 404, 404),
    ("/people/like?source=ned&target=dee", 200, 403, 404, 404, 404, 404),
    ("/people/membership?verb=add&user=dee&group=operators", 200, 403, 404, 404, 404, 404),
    ("/people/members/group:operators", 200, 403, 404, 404, 404, 404),
    ("/people/manager/user:dee", 200, 403, 404, 404, 404, 404),
    ("/people/leaving/user:ned", 200, 200, 404, 404, 404, 404),
    ("/people/user:dee", 200, 200, 404, 404, 404, 404),
    ("/my-access", 200, 200, 200, 200, 200, 200),
    ("/accounts/", 302, 302, 404, 404, 404, 404),
    ("/accounts/user:dee", 302, 302, 404, 404, 404, 404),
    ("/accounts/change/user:dee?change=activity&active=no", 200, 403, 404, 404, 404, 404),
    ("/accounts/password/user:dee", 200, 403, 404, 404, 404, 404),
    ("/accounts/second-factor/user:dee", 200, 403, 404, 404, 404, 404),
    ("/accounts/identities/1/unlink", 404, 403, 404, 404, 404, 404),
    ("/accounts/tokens/", 200, 200, 404, 404, 404, 404),
    ("/accounts/tokens/new", 200, 403, 404, 404, 404, 404),
    ("/accounts/tokens/{token}/revoke", 200, 403, 404, 404, 404, 404),
    ("/plans/", 200, 200, 404, 404, 404, 404),
    ("/reviews/", 200, 200, 200, 200, 200, 200),
    ("/reviews/count", 204, 204, 200, 204, 204, 204),
    ("/reviews/new", 200, 403, 404, 404, 404, 404),
    ("/reviews/{review}/", 200, 200, 200, 404, 404, 404),
    ("/reviews/{review}/?answer=all&reviewer=ned", 200, 200, 200, 404, 404, 404),
    ("/reviews/{review}/reviewers", 200, 200, 404, 404, 404, 404),
    ("/reviews/{review}/items.csv", 200, 200, 200, 404, 404, 404),
    ("/reviews/{review}/items.jsonl", 200, 200, 200, 404, 404, 404),
    ("/reviews/{review}/items.xls", 404, 404, 404, 404, 404, 404),
    ("/reviews/{review}/finish", 200, 403, 404, 404, 404, 404),
    ("/reviews/{review}/answers", 405, 405, 405, 405, 405, 405),
    ("/reviews/{review}/sign-off", 405, 405, 405, 405, 405, 405),
    ("/reviews/{review}/cancel", 405, 405, 405, 405, 405, 405),
    ("/reviews/{review}/retry", 405, 405, 405, 405, 405, 405),
    ("/reviews/{review}/evidence.zip", 404, 404, 404, 404, 404, 404),
    ("/plans/{plan}/", 200, 200, 404, 404, 404, 404),
    ("/people/see-as", 405, 405, 405, 405, 405, 405),
    ("/plans/readiness?namespace=namespace:sales&user=dee&generation=final", 200, 403, 404, 404, 404, 404),
    ("/plans/readiness", 303, 403, 404, 404, 404, 404),
    ("/plans/policy-impact/{run}", 303, 403, 404, 404, 404, 404),
    (
        "/plans/missing?address=namespace:sales&subject=user:dee&operation=delete",
        200,
        403,
        404,
        404,
        404,
        404,
    ),
    ("/plans/missing", 404, 403, 404, 404, 404, 404),
    ("/plans/copy", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/apply", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/discard", 405, 405, 405, 405, 405, 405),
    ("/effect/run", 405, 405, 405, 405, 405, 405),
    ("/effect/run/cancel", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/effect", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/effect/cancel", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/undo", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/renew", 405, 405, 405, 405, 405, 405),
    ("/analyses/0/", 404, 404, 404, 404, 404, 404),
    ("/nowhere", 404, 404, 404, 404, 404, 404),
]

WRITES = [
    ("/reviews/new", 403, 404, 404, 404),
    ("/reviews/{review}/answers", 400, 400, 404, 404),
    ("/reviews/{review}/sign-off", 400, 400, 404, 404),
    ("/reviews/{review}/finish", 403, 404, 404, 404),
    ("/reviews/{review}/cancel", 403, 404, 404, 404),
    ("/reviews/{review}/retry", 403, 404, 404, 404),
    # POST, then the status for: aud, ned, dee, out
    ("/grant/dataset:sales.orders", 403, 403, 403, 404),
    ("/revoke/dataset:sales.orders", 403, 403, 403, 404),
    ("/grant/dataset:hr.salaries", 403, 404, 404, 404),
    ("/grant/dataset:sales.nothing", 403, 404, 404, 404),
    ("/lifecycle/delete/dataset:sales.orders", 403, 403, 403, 404),
    ("/describe/dataset:sales.orders", 403, 403, 403, 404),
    ("/stewards/namespace:sales", 403, 404, 404, 404),
    ("/register", 403, 404, 404, 404),
    ("/plans/many", 403, 404, 404, 404),
    ("/plans/ghosts", 403, 404, 404, 404),
    ("/plans/import", 403, 404, 404, 404),
    ("/policies/core/activate", 403, 404, 404, 404),
    ("/accounts/second-factor/user:dee", 403, 404, 404, 404),
    ("/accounts/identities/1/unlink", 403, 404, 404, 404),
    ("/journal/break-glass/start", 403, 404, 404, 404),
    ("/journal/break-glass/1/end", 403, 404, 404, 404),
    ("/journal/break-glass/1/review", 403, 404, 404, 404),
    ("/journal/webhooks/new", 403, 404, 404, 404),
    ("/journal/webhooks/1/change", 403, 404, 404, 404),
    ("/analyses/start", 403, 404, 404, 404),
    ("/analyses/{run}/cancel", 403, 404, 404, 404),
    ("/analyses/nightly", 403, 404, 404, 404),
    ("/analyses/nightly/visibility", 403, 404, 404, 404),
]


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
    sent = {
        "principal": "user:out",
        "privilege": "READ",
        "parent": "namespace:sales",
        "kind": "dataset",
        "name": "x",
        "analysis": "delete-readiness",
        "description": "x",
    }
    url = url.format(**numbers)
    assert [browse(name).post(url, sent).status_code for name in ("aud", "ned", "dee", "out")] == statuses
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


def test_an_inactive_account_cannot_sign_in(browse):
    assert browse("ina").get("/").status_code == 302


def test_an_ordinary_account_sees_no_other_principals(browse):
    for url in ("/", "/entities/namespace:sales", ORDERS, f"{ORDERS}?operation=read", "/search?q=sales"):
        text = browse("dee").get(url).content.decode()
        for name in ("ned", "grp", "ina", "out", "operators"):
            assert f">{name}<" not in text and f"user:{name}" not in text and f"group:{name}" not in text


def test_an_ordinary_account_can_ask_only_about_itself(browse):
    response = browse("dee").get(f"{ORDERS}?operation=read&subject=user:ned")
    assert (
        response.context["ask"]["answer"] is None and response.context["ask"]["other_subject"] == "user:ned"
    )
    response = browse("dee").get(f"{ORDERS}?operation=read")
    assert response.context["ask"]["answer"].decision.question.principal == "user:dee"


def test_a_denial_does_not_name_invisible_entities(browse):
    response = browse("dee").get("/entities/namespace:sales?operation=delete")
    text = response.content.decode()
    assert response.context["ask"]["answer"].decision.is_permitted is False
    assert "customers" not in text and "etl-1.0" not in text
    assert "entities that you may not see" in text
    assert response.context["ask"]["answer"].missing == []


def test_hidden_entities_do_not_turn_a_permit_into_a_denial(browse):
    ensure_entities(states={parse_address("stream:sales.clicks"): "live"})
    response = browse("ned").get("/entities/namespace:sales?operation=delete-all-streams&generation=existing")
    decision, text = response.context["ask"]["answer"].decision, response.content.decode()
    assert decision.is_permitted and decision.sentence == "Allowed: user:ned holds ADMIN on namespace:sales."
    answer = text.split('id="answer"')[1].split("All generations")[0]
    assert decision.sentence in answer and "Denied" not in answer and "clicks" not in text


def test_a_denial_lists_all_missing_grants_for_an_auditor(browse):
    response = browse("aud").get("/entities/namespace:sales?operation=delete&subject=user:dee")
    assert {str(gap.address) for gap in response.context["ask"]["answer"].missing} >= {
        "dataset:sales.customers"
    }


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
