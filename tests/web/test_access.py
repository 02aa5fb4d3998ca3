"""Access to pages by account: invisible pages are 404, visible but read-only ones 403, and 404 pages reveal nothing."""

import re

import pytest

from analytics.models import AnalysisRun
from authzconsole.common.tokens import create_token
from entities.address import parse_address
from entities.services import ensure_entities
from grants.models import JournalLine
from grants.plans.sources.changes import create_plan_from_changes
from tests.support.authors import database_state
from tests.support.cast import SETUP

ORDERS, SALARIES, NOWHERE = "/entities/dataset:sales.orders", "/entities/dataset:hr.salaries", "/entities/dataset:sales.nothing"
PROGRAM = "/entities/program:sales.shop.workflow.daily"

PAGES = [
    # page, then the status for: ada, aud, ned, dee, grp, out
    ("/", 200, 200, 200, 200, 200, 200),
    ("/status", 200, 200, 404, 404, 404, 404),
    ("/password", 200, 200, 200, 200, 200, 200),
    ("/reauthenticate", 200, 200, 200, 200, 200, 200),
    ("/sessions", 200, 200, 200, 200, 200, 200),
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
    ("/register?parent=namespace:sales", 200, 403, 404, 404, 404, 404),
    ("/suggest/principals?principal=n", 200, 200, 404, 404, 404, 404),
    ("/plans/many", 200, 403, 404, 404, 404, 404),
    ("/plans/many?within=namespace:sales", 200, 403, 404, 404, 404, 404),
    ("/plans/many?within=dataset:sales.orders", 404, 403, 404, 404, 404, 404),
    ("/plans/many?within=namespace:nowhere", 404, 403, 404, 404, 404, 404),
    ("/plans/many?address=dataset:sales.orders&address=nonsense", 200, 403, 404, 404, 404, 404),
    ("/plans/ghosts", 405, 405, 405, 405, 405, 405),
    ("/plans/import", 200, 403, 404, 404, 404, 404),
    ("/plans/import/sample.csv", 200, 403, 404, 404, 404, 404),
    ("/plans/import/sample.jsonl", 200, 403, 404, 404, 404, 404),
    ("/plans/import/sample.xls", 404, 403, 404, 404, 404, 404),
    ("/policies/", 200, 200, 200, 200, 200, 200),
    ("/policies/core/activate", 200, 403, 404, 404, 404, 404),
    ("/journal/", 200, 200, 404, 404, 404, 404),
    ("/journal/proof", 200, 200, 404, 404, 404, 404),
    ("/journal/differences?of=dataset:sales.orders&since=1", 200, 200, 404, 404, 404, 404),
    ("/journal.csv", 200, 200, 404, 404, 404, 404),
    ("/journal/evidence", 200, 200, 404, 404, 404, 404),
    ("/journal/evidence/1/", 404, 404, 404, 404, 404, 404),
    ("/journal/evidence/1.zip", 404, 404, 404, 404, 404, 404),
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
    ("/plans/{plan}/", 200, 200, 404, 404, 404, 404),
    ("/people/see-as", 405, 405, 405, 405, 405, 405),
    ("/plans/readiness", 405, 405, 405, 405, 405, 405),
    ("/plans/policy-impact/{run}", 405, 405, 405, 405, 405, 405),
    ("/plans/missing", 405, 405, 405, 405, 405, 405),
    ("/plans/copy", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/apply", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/discard", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/undo", 405, 405, 405, 405, 405, 405),
    ("/plans/{plan}/renew", 405, 405, 405, 405, 405, 405),
    ("/analyses/0/", 404, 404, 404, 404, 404, 404),
    ("/nowhere", 404, 404, 404, 404, 404, 404),
]

WRITES = [
    # POST, then the status for: aud, ned, dee, out
    ("/grant/dataset:sales.orders", 403, 403, 403, 404),
    ("/revoke/dataset:sales.orders", 403, 403, 403, 404),
    ("/grant/dataset:hr.salaries", 403, 404, 404, 404),
    ("/grant/dataset:sales.nothing", 403, 404, 404, 404),
    ("/lifecycle/delete/dataset:sales.orders", 403, 403, 403, 404),
    ("/describe/dataset:sales.orders", 403, 403, 403, 404),
    ("/register", 403, 404, 404, 404),
    ("/plans/many", 403, 404, 404, 404),
    ("/plans/ghosts", 403, 404, 404, 404),
    ("/plans/import", 403, 404, 404, 404),
    ("/policies/core/activate", 403, 404, 404, 404),
    ("/accounts/second-factor/user:dee", 403, 404, 404, 404),
    ("/accounts/identities/1/unlink", 403, 404, 404, 404),
    ("/journal/webhooks/new", 403, 404, 404, 404),
    ("/journal/webhooks/1/change", 403, 404, 404, 404),
    ("/analyses/start", 403, 404, 404, 404),
    ("/analyses/{run}/cancel", 403, 404, 404, 404),
    ("/analyses/nightly", 403, 404, 404, 404),
    ("/analyses/nightly/visibility", 403, 404, 404, 404),
]


@pytest.fixture
def numbers(cast):
    """The numbers in the URLs: of a run that can be cancelled, of a plan, and of a token."""
    run = AnalysisRun.objects.create(analysis="delete-readiness", options={"generation": "final", "namespace": ""},
                                     state="running", stage="spark")
    plan = create_plan_from_changes(author=SETUP, grant=[("user:out", parse_address("dataset:sales.orders"), "READ")])
    token = create_token(author=SETUP, owner="dee", name="a script", scopes=["read"], days=1).token
    return {"run": run.pk, "plan": plan.pk, "token": token.pk}


@pytest.mark.parametrize(("page", "statuses"), [(page, statuses) for page, *statuses in PAGES])
def test_each_page_has_the_expected_status_for_each_account(page, statuses, browse, numbers):
    actual = [browse(name).get(page.format(**numbers)).status_code for name in ("ada", "aud", "ned", "dee", "grp", "out")]
    assert actual == statuses


@pytest.mark.parametrize("page", [page for page, *_ in PAGES if page != "/nowhere"])
def test_every_page_redirects_anonymous_users_to_sign_in(page, browse, numbers):
    response = browse().get(page.format(**numbers))
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/sign-in?next=/")


@pytest.mark.parametrize(("url", "statuses"), [(url, statuses) for url, *statuses in WRITES])
def test_only_administrators_can_write(url, statuses, browse, numbers):
    before = database_state()
    sent = {"principal": "user:out", "privilege": "READ", "parent": "namespace:sales", "kind": "dataset", "name": "x",
            "analysis": "delete-readiness", "description": "x"}
    url = url.format(**numbers)
    assert [browse(name).post(url, sent).status_code for name in ("aud", "ned", "dee", "out")] == statuses
    assert database_state() == before


def test_an_invisible_entity_and_a_missing_one_have_the_same_page(browse):
    unseen, absent = (without_tokens(browse("dee").get(url)) for url in (SALARIES, NOWHERE))
    assert unseen == absent


def without_tokens(response) -> str:
    """Return the page without CSRF tokens, which differ in each response."""
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", response.content.decode())


def test_an_inactive_account_cannot_sign_in(browse):
    assert browse("ina").get("/").status_code == 302


def test_an_ordinary_account_sees_no_other_principals(browse):
    for url in ("/", "/entities/namespace:sales", ORDERS, f"{ORDERS}?operation=read", "/search?q=sales"):
        text = browse("dee").get(url).content.decode()
        for name in ("ned", "grp", "ina", "out", "operators"):
            assert f">{name}<" not in text and f"user:{name}" not in text and f"group:{name}" not in text


def test_an_ordinary_account_can_ask_only_about_itself(browse):
    response = browse("dee").get(f"{ORDERS}?operation=read&subject=user:ned")
    assert response.context["ask"]["answer"] is None and response.context["ask"]["other_subject"] == "user:ned"
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
    assert {str(gap.address) for gap in response.context["ask"]["answer"].missing} >= {"dataset:sales.customers"}


def test_counts_include_only_visible_entities(browse):
    totals = {name: browse(name).get("/entities/namespace:sales").context["children"]["total"] for name in ("ada", "dee", "grp")}
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


@pytest.mark.parametrize("who", ["ada", "out"])
@pytest.mark.parametrize(("address", "fault"), [
    ("dataset:x", "`dataset:x` lacks a part"), ("widget:x", "`widget` is not a kind of entity"),
    ("namespace:a-b", "the name `a-b` contains a character"), ("program:a.b.c.d", "`c` is not a type of program"),
])
def test_an_invalid_address_is_refused_with_the_invalid_part(browse, who, address, fault):
    answer = browse(who).get(f"/entities/{address}")
    assert answer.status_code == 404 and fault in answer.content.decode().replace("&#x27;", "'")


def test_a_404_page_does_not_reveal_whether_a_valid_address_exists(browse):
    unseen, nowhere = (without_tokens(browse("out").get(url)) for url in (SALARIES, NOWHERE))
    assert unseen == nowhere and "hr.salaries" not in unseen


@pytest.mark.parametrize(("url", "area"), [
    ("/analyses/start", "Analyses"), ("/plans/copy", "Plans"), ("/plans/9/apply", "Plans"), ("/plans/ghosts", "Plans"),
    ("/plans/readiness", "Plans"), ("/plans/missing", "Plans"), ("/people/see-as", "Users and groups"),
])
def test_a_post_only_url_explains_itself_and_links_to_its_area(url, area, browse):
    response = browse("ada").get(url)
    text = response.content.decode()
    assert (response.status_code, response["Allow"], "no-store" in response["Cache-Control"]) == (405, "POST", True)
    assert "This address only accepts a form" in text and f"Go to {area}" in text and 'id="search"' in text
    assert "Go to Overview" in browse("dee").get(url).content.decode()


@pytest.mark.parametrize("url", ["/", "/nowhere", NOWHERE, "/password", "/ask", "/api/v1/docs", "/api/v1/redoc", "/journal.csv",
                                 "/api/v1/openapi.json", "/api/v1/nowhere", "/access/nowhere", "/explorer/", "/journal.xls"])
def test_no_response_to_a_signed_in_account_is_cached(url, browse):
    assert "no-store" in browse("ada").get(url)["Cache-Control"]


def test_error_pages_are_not_cached(browse):
    client = browse("ada")
    client.handler.enforce_csrf_checks = True
    response = client.post("/password")
    assert response.status_code == 403 and "no-store" in response["Cache-Control"]


def test_a_read_only_page_refuses_a_post(browse):
    response = browse("ada").post("/journal/")
    assert response.status_code == 405 and "does not accept forms" in response.content.decode()


@pytest.mark.parametrize("url", ["/access/v1/evaluation", "/api/v1/grants"])
def test_apis_keep_their_own_405_response(url, browse):
    response = browse("ada").delete(url)
    assert "html" not in response["Content-Type"] and b"This address only accepts a form" not in response.content


def test_error_pages_keep_navigation_and_search_for_signed_in_accounts(browse):
    for url, name in ((NOWHERE, "dee"), ("/nowhere", "dee"), ("/plans/many", "aud")):
        text = browse(name).get(url).content.decode()
        assert 'id="search"' in text and "Sign out" in text
    assert 'id="search"' not in browse().get("/nowhere").content.decode()
