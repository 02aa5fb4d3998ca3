"""REST resources of access reviews: the whole way from the start to the evidence, and what each account sees."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from grants.models import JournalLine
from grants.models.reviews import Campaign
from grants.reviews.sweep import sweep_campaigns
from tests.grants.reviews.support import item_of
from tests.rest.conftest import problem
from tests.support.changes import revoke_grant
from tests.support.jobs import execute_finish, execute_preparation

pytestmark = pytest.mark.django_db
REVIEW = {
    "title": "Quarterly review",
    "deadline": "2100-01-01T00:00:00+01:00",
    "reviewer_rule": "admin-holders",
}


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)


@pytest.fixture
def review(ada) -> int:
    """ned reviews what others hold in `sales`."""
    answer = ada.post("/reviews", REVIEW | {"scope": {"namespace": "sales"}})
    assert answer.status_code == 202 and answer.json()["state"] == "preparing"
    number = answer.json()["number"]
    assert answer["Location"].endswith(f"/reviews/{number}")
    execute_preparation(number=number)
    return number


def test_a_preview_counts_the_items_of_each_reviewer_and_stores_nothing(ada, by_session):
    options = {"reviewer_rule": "admin-holders", "scope": {"namespace": "sales"}}
    preview = ada.post("/reviews/preview", options).json()
    number = ada.post("/reviews", REVIEW | options).json()["number"]
    execute_preparation(number=number)
    review = Campaign.objects.get()
    assert preview["items"] == review.item_count == sum(row["items"] for row in preview["reviewers"])
    assert {(row["reviewer"], row["items"]) for row in preview["reviewers"]} == set(
        review.shares.filter(item_count__gt=0).values_list("reviewer__username", "item_count")
    )
    assert (
        "group of reviewers"
        in problem(ada.post("/reviews/preview", {"reviewer_rule": "group"}), 400)["detail"]
    )
    assert by_session("ned").post("/reviews/preview", options).status_code == 403


def test_a_review_from_its_start_to_its_plan_and_its_evidence(review, ada, by_session, tmp_path):
    ned = by_session("ned")
    assert ada.get(f"/reviews/{review}").json()["state"] == "open"
    items = ned.all_of(f"/reviews/{review}/items", limit=1)
    assert {item["reviewer"] for item in items} == {"ned"} and ned.get("/reviews").json()["items"][0][
        "items"
    ] == len(items) == 3
    preview = ned.post(
        f"/reviews/{review}/answers", {"filter": {"privilege": "READ"}, "answer": "revoke", "dry_run": True}
    )
    assert preview.json() == {"count": 2, "own": 0, "answered": 0, "strands": 0}
    revoked = next(item["item"] for item in items if item["principal"] == "user:ina")
    ned.post(f"/reviews/{review}/answers", {"filter": {}, "answer": "keep", "comment": "needed"})
    ned.post(f"/reviews/{review}/answers", {"items": [revoked], "answer": "revoke", "comment": "left"})
    assert [item["item"] for item in ned.all_of(f"/reviews/{review}/items", answer="revoke")] == [revoked]
    assert ned.post(f"/reviews/{review}/sign-off").json() == {"finished": False}
    ada.post(f"/reviews/{review}/answers", {"filter": {"answer": "open"}, "answer": "keep"})
    assert ada.post(f"/reviews/{review}/sign-off").json() == {"finished": True}
    assert problem(ada.get(f"/reviews/{review}/bundle"), 409)["detail"].endswith("has no evidence yet")
    execute_finish(number=review)
    finished = ada.get(f"/reviews/{review}").json()
    assert (
        finished["state"] == "finished" and finished["figures"]["revoke"] == 1 and len(finished["plans"]) == 1
    )
    plan = ada.get(f"/plans/{finished['plans'][0]}/items").json()["items"]
    assert [(item["verb"], item["principal"], item["entity"]) for item in plan] == [
        ("revoke", "user:ina", "dataset:sales.orders")
    ]
    download = by_session("aud").get(f"/reviews/{review}/bundle")
    assert download["Content-Disposition"] == f'attachment; filename="review-{review}.zip"'
    bundle = b"".join(download.streaming_content)
    check_bundle(bundle, revoked, tmp_path / "review.zip")


def check_bundle(content: bytes, revoked: int, path: Path) -> None:
    path.write_bytes(content)
    output = io.StringIO()
    call_command("verify_evidence", str(path), stdout=output)
    assert "The bundle is valid: review" in output.getvalue()
    with zipfile.ZipFile(path) as archive:
        items = [json.loads(line) for line in archive.read("items.jsonl").splitlines()]
        lines = archive.read("items.csv").decode().splitlines()
        summary, page = json.loads(archive.read("review.json")), archive.read("report.html").decode()
        start = archive.getinfo("report.html").header_offset + 30 + len("report.html") + 40
        assert archive.read("report.css")
    assert len(lines) == len(items) + 1 and summary["figures"]["items"] == len(items)
    answers = {item["item"]: (item["answer"], item["comment"], item["answered_by"]) for item in items}
    assert answers[revoked] == ("revoke", "left", "ned")
    assert (
        "<h2>Revoke: 1</h2>" in page
        and "<code>user:ina</code>" in page
        and "“left”" in page
        and "<script" not in page
    )
    damaged = bytearray(content)
    damaged[start] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(CommandError, match=r"not valid: report\.html was changed"):
        call_command("verify_evidence", str(path))


def test_accounts_without_items_see_no_review_and_reviewers_see_no_other_items(review, by_session, ada):
    for name in ("dee", "out"):
        caller = by_session(name)
        assert caller.get("/reviews").json()["items"] == []
        for path in ("", "/items", "/items.csv", "/items.jsonl"):
            problem(caller.get(f"/reviews/{review}{path}"), 404)
        for path, body in (
            ("/answers", {"filter": {}, "answer": "keep"}),
            ("/assignments", {"filter": {}}),
            ("/sign-off", {}),
        ):
            problem(caller.post(f"/reviews/{review}{path}", body), 404)
    ned = by_session("ned")
    seen = ned.get(f"/reviews/{review}").json()
    assert (seen["scope"], seen["figures"], seen["plans"]) == ({}, {}, [])
    lines = [
        json.loads(line)
        for line in b"".join(ned.get(f"/reviews/{review}/items.jsonl").streaming_content).splitlines()
    ]
    assert {line["reviewer"] for line in lines} == {"ned"}
    foreign = [item["item"] for item in ada.all_of(f"/reviews/{review}/items", reviewer="administrators")]
    problem(ned.post(f"/reviews/{review}/answers", {"items": foreign, "answer": "keep"}), 400)
    for path in ("retry", "cancel", "finish"):
        problem(ned.post(f"/reviews/{review}/{path}", {}), 403)
    problem(ned.get(f"/reviews/{review}/bundle"), 403)
    problem(ned.get(f"/reviews/{review}/gone"), 403)


def test_auditors_see_everything_and_change_nothing(review, by_session, ada):
    auditor = by_session("aud")
    assert auditor.all_of(f"/reviews/{review}/items") == ada.all_of(f"/reviews/{review}/items")
    assert auditor.get(f"/reviews/{review}/gone").json()["items"] == []
    problem(auditor.post(f"/reviews/{review}/answers", {"filter": {}, "answer": "keep"}), 400)
    for path in ("retry", "cancel", "finish"):
        problem(auditor.post(f"/reviews/{review}/{path}", {}), 403)
    content = b"".join(auditor.get(f"/reviews/{review}/items.csv").streaming_content).decode()
    assert content.splitlines()[0].startswith("item,source,principal") and "user:dee" in content


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"deadline": "2020-01-01T00:00:00Z"}, "deadline"),
        ({"scope": {"namespace": "none"}}, "namespace"),
        ({"scope": {"kinds": ["none"]}}, "scope"),
        ({"reviewer_rule": "group"}, "reviewer_group"),
    ],
)
def test_bad_input_names_the_field(ada, body, field):
    answer = problem(ada.post("/reviews", REVIEW | body), 400)
    assert answer["errors"][0]["field"].startswith(field)
    assert not Campaign.objects.exists()


def test_bad_answers_are_refused(review, ada):
    for body in (
        {"answer": "keep"},
        {"answer": "keep", "items": [1], "filter": {}},
        {"answer": "shorten", "filter": {}},
        {"answer": "keep", "filter": {"size": 1}},
    ):
        problem(ada.post(f"/reviews/{review}/answers", body), 400)
    problem(ada.post(f"/reviews/{review}/assignments", {"filter": {}, "reviewer": "nobody"}), 400)
    problem(ada.get(f"/reviews/{review + 1}"), 404)


def test_a_cancelled_review_cannot_be_finished(review, ada):
    assert ada.post(f"/reviews/{review}/cancel", {"reason": "wrong scope"}).json()["state"] == "cancelled"
    problem(ada.post(f"/reviews/{review}/finish", {}), 409)
    assert ada.get("/reviews", state="open").json()["items"] == []


def test_a_review_whose_preparation_failed_is_prepared_again(review, ada, by_session):
    assert problem(ada.post(f"/reviews/{review}/retry", {}), 409)["detail"].endswith(
        "only a failed review can be prepared again"
    )
    Campaign.objects.update(state="failed", error="the storage is full")
    assert problem(ada.post(f"/reviews/{review}/retry", {"why": "x"}), 400)["errors"][0]["field"] == "why"
    problem(by_session("out").post(f"/reviews/{review}/retry", {}), 403)
    answer = ada.post(f"/reviews/{review}/retry", {"reason": "space was freed"})
    assert answer.status_code == 202 and (answer.json()["state"], answer.json()["error"]) == ("preparing", "")
    line = JournalLine.objects.latest("pk")
    assert (line.action, line.actor, line.reason) == ("review-retry", "ada", "space was freed")
    problem(ada.post(f"/reviews/{review}/retry", {}), 409)
    execute_preparation(number=review)
    assert ada.get(f"/reviews/{review}").json()["state"] == "open"
    Campaign.objects.update(state="failed", deadline=Campaign.objects.get().created_at)
    assert "the deadline has passed" in problem(ada.post(f"/reviews/{review}/retry", {}), 409)["detail"]
    problem(ada.post(f"/reviews/{review + 1}/retry", {}), 404)


def test_items_that_no_longer_exist_are_marked(review, ada, by_session):
    gone = item_of(Campaign.objects.get(), "user:dee", "dataset:sales.orders")
    revoke_grant("user:dee", "dataset:sales.orders", "READ")
    marks = {item["item"]: item["removed"] for item in ada.get(f"/reviews/{review}/items").json()["items"]}
    assert marks.pop(gone.pk) == "revoked" and set(marks.values()) == {None}
    sweep_campaigns()
    assert [item["item"] for item in ada.get(f"/reviews/{review}/items?answer=removed").json()["items"]] == [
        gone.pk
    ]
    answer = ada.get(f"/reviews/{review}").json()
    assert (answer["items"], answer["answered"], answer["removed"]) == (len(marks) + 1, 0, 1)
    answer = ada.get(f"/reviews/{review}/items?principal=user:dee&answer=open").json()["items"]
    assert {item["principal"] for item in answer} == {"user:dee"} and gone.pk not in {
        item["item"] for item in answer
    }


@pytest.mark.parametrize(
    ("path", "query_count"), [("/reviews", 5), ("/reviews/{}", 5), ("/reviews/{}/items", 5)]
)
def test_the_number_of_queries_is_fixed(review, ada, path, query_count, django_assert_num_queries):
    with django_assert_num_queries(query_count):
        assert ada.get(path.format(review)).status_code == 200


def test_managers_are_set_together_and_review_their_people(ada, by_session):
    assert ada.put(
        "/managers", {"managers": [{"user": "dee", "manager": "ned"}, {"user": "grp", "manager": "ned"}]}
    ).json() == {"changed": 2}
    assert ada.put(
        "/managers", {"managers": [{"user": "dee", "manager": "ned"}, {"user": "grp", "manager": ""}]}
    ).json() == {"changed": 1}
    assert ada.get("/managers").json()["items"] == [{"user": "dee", "manager": "ned"}]
    for user, manager in (("dee", "dee"), ("dee", "nobody"), ("nobody", "dee")):
        problem(
            ada.put(
                "/managers",
                {"managers": [{"user": "grp", "manager": "ned"}, {"user": user, "manager": manager}]},
            ),
            409,
        )
    assert len(ada.get("/managers").json()["items"]) == 1
    number = ada.post("/reviews", REVIEW | {"reviewer_rule": "manager"}).json()["number"]
    execute_preparation(number=number)
    assert {item["principal"] for item in by_session("ned").all_of(f"/reviews/{number}/items")} == {
        "user:dee"
    }


def test_use_is_imported_all_or_none(ada):
    good = {"user": "dee", "entity": "dataset:sales.orders", "day": "2026-01-31"}
    answer = problem(ada.post("/usage", {"records": [good, good | {"user": "nobody"}]}), 400)
    assert answer["errors"] == [
        {"list": "records", "index": 1, "field": "user", "message": "user:nobody is not known here"}
    ]
    assert ada.post("/usage", {"records": [good, good | {"day": "2026-01-30"}]}).json() == {"stored": 2}
