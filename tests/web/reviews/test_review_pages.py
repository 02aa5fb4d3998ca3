"""The pages of reviews: starting and preparing one, answering items alone and in bulk, and finishing it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from entities.models import Entity
from grants.change_set import AddGroup, ChangeSet, Include
from grants.changes import apply
from grants.evidence.signing import public_key
from grants.journal import Author
from grants.models import Job, JobState, JournalLine, Plan, User
from grants.models.reviews import Campaign, ReviewItem, UsageDay
from grants.reviews.answers import ItemSelection, answer_items
from grants.reviews.selection import ItemFilter
from grants.reviews.sweep import sweep_campaigns
from tests.grants.reviews.support import item_of, open_campaign
from tests.support.authors import COMMAND, account
from tests.support.cast import create_role_accounts
from tests.support.changes import add_grant, change_grants
from tests.support.jobs import execute_finish, execute_preparation
from tests.support.pages import page_html, text_of

pytestmark = pytest.mark.django_db
FORM = {
    "title": "Quarterly review",
    "source": ["user", "group"],
    "namespace": "sales",
    "reviewer_rule": "admin-holders",
    "unanswered": "list",
    "deadline": "2100-01-31",
    "reminder_days": "7",
    "escalation_days": "",
    "recurrence": "3",
}


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)


@pytest.fixture
def review(cast) -> Campaign:
    return open_campaign(reviewer_rule="admin-holders")


def test_an_administrator_starts_a_review_and_its_owner_answers_it(browse, cast):
    ada, ned = browse("ada"), browse("ned")
    page = ada.get("/reviews/new")
    assert "Start review" in text_of(page) and 'T18:00"' in page_html(page)
    response = ada.post("/reviews/new", FORM)
    campaign = Campaign.objects.get()
    assert response.headers["Location"] == f"/reviews/{campaign.pk}/" and campaign.scope == {
        "sources": ["user", "group"],
        "namespace": "sales",
    }
    assert campaign.deadline.isoformat() == "2100-02-01T00:00:00+00:00"
    assert "The items are not prepared yet." in text_of(ada.get(response.headers["Location"]))
    execute_preparation(number=campaign.pk)
    page = ned.get(f"/reviews/{campaign.pk}/")
    assert "0 of 3 items answered" in text_of(page) and "user dee READ" in text_of(page)
    item = item_of(campaign, "user:dee", "dataset:sales.orders")
    url, back = f"/reviews/{campaign.pk}/answers", f"/reviews/{campaign.pk}/?kind=dataset"
    response = ned.post(url, {"item": item.pk, "answer": "revoke", "comment": "left the team", "back": back})
    assert response.status_code == 303 and response.headers["Location"] == back
    item.refresh_from_db()
    assert (item.answer, item.comment, item.answered_by) == ("revoke", "left the team", "ned")
    ned.post(url, {"item": item.pk, "answer": "undo"})
    item.refresh_from_db()
    assert item.answer == ""


def test_the_form_says_who_reviews_with_delegation(browse, cast, settings):
    hint = "those of its application, namespace or instance review"
    assert hint not in text_of(browse("ada").get("/reviews/new"))
    settings.DELEGATION = True
    assert hint in text_of(browse("ada").get("/reviews/new"))


def test_a_bulk_answer_shows_its_counts_first(browse, review):
    ned, url = browse("ned"), f"/reviews/{review.pk}/answers"
    sent = {"select": "all", "answer": "revoke", "filter_answer": "open", "filter_kind": "dataset"}
    page = ned.post(url, sent)
    assert (
        page.status_code == 200
        and "Revoke 2 items" in text_of(page)
        and not ReviewItem.objects.exclude(answer="").exists()
    )
    assert ned.post(url, sent | {"confirm": "yes"}).status_code == 303
    assert review.items.filter(answer="revoke").count() == 2
    shorten = ned.post(url, {"select": "all", "answer": "shorten", "filter_answer": "all"})
    assert "New end" in text_of(shorten)
    refused = ned.post(
        url,
        {
            "select": "all",
            "answer": "shorten",
            "filter_answer": "all",
            "until": "2001-01-01",
            "confirm": "yes",
        },
    )
    assert refused.status_code == 400 and "in the past" in text_of(refused)
    assert (
        ned.post(
            url,
            {
                "select": "all",
                "answer": "shorten",
                "filter_answer": "all",
                "until": "2100-01-01",
                "confirm": "yes",
            },
        ).status_code
        == 303
    )


def test_times_are_entered_and_shown_in_the_time_zone_of_the_reader(browse, review):
    ada, url = browse("ada"), f"/reviews/{review.pk}/answers"
    ada.cookies["time_zone"] = "Europe/Berlin"
    assert "In Europe/Berlin" in text_of(ada.get("/reviews/new"))
    started = ada.post("/reviews/new", FORM | {"deadline": "2100-07-01T17:00"}).headers["Location"]
    assert Campaign.objects.latest("pk").deadline.isoformat() == "2100-07-01T15:00:00+00:00"
    assert "2100-07-01 17:00 CEST" in text_of(ada.get(started)) and "2100-07-01 17:00 CEST" in text_of(
        ada.get("/reviews/")
    )
    assert ada.post("/reviews/new", FORM | {"deadline": "2100-07-01"}).status_code == 303
    assert Campaign.objects.latest("pk").deadline.isoformat() == "2100-07-01T22:00:00+00:00"
    item = item_of(review, "user:dee", "dataset:sales.orders")
    assert "In Europe/Berlin" in text_of(ada.post(url, {"item": item.pk, "answer": "shorten"}))
    ada.post(url, {"item": item.pk, "answer": "shorten", "until": "2100-12-01T10:00", "confirm": "yes"})
    item.refresh_from_db()
    assert item.new_until.isoformat() == "2100-12-01T09:00:00+00:00"
    assert "Shorten to 2100-12-01 10:00 CET" in text_of(ada.get(f"/reviews/{review.pk}/?answer=shorten"))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"answer": "keep"}, "no item is selected"),
        ({"answer": "maybe", "item": "1"}, "Select an answer"),
        ({}, "Select an answer"),
        ({"answer": "keep", "item": "x"}, "no item is selected"),
        ({"answer": "keep", "item": "999999"}, "no item is selected"),
        ({"answer": "keep", "select": "all", "filter_size": "1"}, "is not a filter"),
    ],
)
def test_bad_answers_show_what_is_wrong(browse, review, sent, message):
    response = browse("ned").post(f"/reviews/{review.pk}/answers", sent)
    assert response.status_code == 400 and message in text_of(response)


def test_an_answer_returns_only_to_the_pages_of_the_review(browse, review):
    item = item_of(review, "user:dee", "dataset:sales.orders")
    for back in ("https://example.com/", "//example.com", "/plans/"):
        response = browse("ned").post(
            f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "keep", "back": back}
        )
        assert response.headers["Location"] == f"/reviews/{review.pk}/"


def test_a_reviewer_sees_only_their_items_and_no_links_to_closed_pages(browse, review):
    change_grants(author=COMMAND, grant=[("user:out", parse_address("dataset:hr.salaries"), "READ")])
    text = page_html(browse("ned").get(f"/reviews/{review.pk}/?answer=all"))
    assert (
        "salaries" not in text
        and "/people/" not in text
        and "Finish review" not in text
        and "Reviewer:" not in text
    )
    assert "/people/user:dee" in page_html(browse("ada").get(f"/reviews/{review.pk}/?answer=all"))
    assert "Keep" not in text_of(browse("aud").get(f"/reviews/{review.pk}/")).replace("To keep", "")
    assert "Nothing to review" in text_of(browse("out").get("/reviews/"))


def test_the_navigation_counts_the_items_that_wait_for_the_account(browse, review, cast):
    assert ">3<" in page_html(browse("ned").get("/reviews/count"))
    assert f">{review.items.filter(reviewer=None).count()}<" in page_html(browse("ada").get("/reviews/count"))
    assert browse("aud").get("/reviews/count").status_code == 204
    browse("ned").post(
        f"/reviews/{review.pk}/answers",
        {"select": "all", "answer": "keep", "filter_answer": "open", "confirm": "yes"},
    )
    assert browse("ned").get("/reviews/count").status_code == 204


def test_items_are_returned_and_moved(browse, review, cast):
    item, url = item_of(review, "user:dee", "dataset:sales.orders"), f"/reviews/{review.pk}/answers"
    assert "New reviewer" not in text_of(browse("ned").post(url, {"item": item.pk, "answer": "assign"}))
    browse("ned").post(url, {"item": item.pk, "answer": "assign", "confirm": "yes", "comment": "not mine"})
    item.refresh_from_db()
    assert item.reviewer is None and item.escalated
    assert "New reviewer" in text_of(browse("ada").post(url, {"item": item.pk, "answer": "assign"}))
    browse("ada").post(url, {"item": item.pk, "answer": "assign", "reviewer": "user:out", "confirm": "yes"})
    item.refresh_from_db()
    assert item.reviewer == cast["out"]


def test_finishing_shows_the_result_and_links_the_plan_and_the_evidence(browse, review, cast):
    ada = browse("ada")
    item = item_of(review, "user:dee", "dataset:sales.orders")
    ada.post(f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "revoke"})
    assert "Revoke 1" in text_of(ada.get(f"/reviews/{review.pk}/finish"))
    assert ada.post(f"/reviews/{review.pk}/finish").status_code == 303
    assert "plan and the evidence are being written" in text_of(ada.get(f"/reviews/{review.pk}/"))
    execute_finish(number=review.pk)
    page = ada.get(f"/reviews/{review.pk}/")
    assert len(page.context["rows"]) == review.items.count() and "No answer" in text_of(page)
    assert f"verify_evidence review-{review.pk}.zip --public-key {public_key()}" in text_of(page)
    (plan,) = page.context["plans"]
    text = text_of(page)
    assert (
        "1 to revoke" in text
        and f"Plan {plan.pk} (proposed) Access changes when the plan is applied." in text
    )
    Plan.objects.update(state="applied")
    assert "Access changes" not in text_of(ada.get(f"/reviews/{review.pk}/"))
    evidence = browse("aud").get(f"/reviews/{review.pk}/evidence.zip")
    assert b"".join(evidence.streaming_content).startswith(b"PK")
    assert evidence["Content-Disposition"] == f'attachment; filename="review-{review.pk}.zip"'
    assert browse("ned").get(f"/reviews/{review.pk}/evidence.zip").status_code == 404
    again = ada.post(f"/reviews/{review.pk}/finish")
    assert again.status_code == 400 and "is finished" in text_of(again)


def test_a_reviewer_signs_off(browse, review, cast):
    ned = browse("ned")
    refused = ned.post(f"/reviews/{review.pk}/sign-off")
    assert refused.status_code == 400 and "no answer yet" in text_of(refused)
    ned.post(
        f"/reviews/{review.pk}/answers",
        {"select": "all", "answer": "keep", "filter_answer": "open", "confirm": "yes"},
    )
    assert "Sign off" in text_of(ned.get(f"/reviews/{review.pk}/"))
    assert ned.post(f"/reviews/{review.pk}/sign-off").status_code == 303
    assert review.shares.get(reviewer=cast["ned"]).signed_off_at is not None
    page = ned.get(f"/reviews/{review.pk}/")
    assert "Sign off" not in text_of(page) and page.context["signed_off_at"] is not None
    item = review.items.filter(reviewer=cast["ned"]).first()
    ned.post(f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "undo"})
    assert ned.get(f"/reviews/{review.pk}/").context["signed_off_at"] is None


def test_an_administrator_signs_off_their_share_and_then_that_of_the_administrators(browse, review, cast):
    review.items.filter(reviewer=cast["ned"]).update(reviewer=cast["ada"])
    review.shares.filter(reviewer=cast["ned"]).update(reviewer=cast["ada"])
    ada, url = browse("ada"), f"/reviews/{review.pk}/"
    page = ada.get(url)
    assert "Sign off" not in text_of(page)
    assert '<a href="?reviewer=administrators&amp;answer=all">administrators</a>' in page_html(page)
    ada.post(f"{url}answers", {"select": "all", "answer": "keep", "filter_answer": "open", "confirm": "yes"})
    for reviewer in (cast["ada"], None):
        assert "Sign off" in text_of(ada.get(url))
        ada.post(f"{url}sign-off")
        assert review.shares.get(reviewer=reviewer).signed_off_at is not None
    review.refresh_from_db()
    assert review.state == "finishing"


def test_the_page_updates_itself_while_the_worker_prepares_and_finishes_the_review(browse, htmx, cast):
    ada = browse("ada")
    url = ada.post("/reviews/new", FORM).headers["Location"]
    page = ada.get(url)
    assert 'hx-trigger="every 2s"' in page_html(page) and 'id="items"' not in page_html(page)
    section = ada.get(url, headers=htmx("review"))
    assert "<html" not in page_html(section) and "HX-Refresh" not in section.headers
    execute_preparation(number=Campaign.objects.get().pk)
    assert ada.get(url, headers=htmx("review")).headers["HX-Refresh"] == "true"
    assert "every 2s" not in page_html(ada.get(url))


def test_the_page_shows_why_the_preparation_waits_and_how_far_it_is(browse, monkeypatch):
    monkeypatch.setattr(
        "analytics.runs.selectors.redis_problem", lambda: "Redis does not answer at redis://here"
    )
    ada, url = browse("ada"), browse("ada").post("/reviews/new", FORM).headers["Location"]
    assert (
        "Redis does not answer at redis://here. The preparation is kept and starts when it does."
        in text_of(ada.get(url))
    )
    Job.objects.update(state=JobState.RUNNING)
    Campaign.objects.update(item_count=2)
    text = text_of(ada.get(url))
    assert "The items are being prepared: 2 so far." in text and "Cancel review" in text
    assert "items answered" not in text


def test_a_failed_preparation_shows_its_error_and_is_tried_again(browse, monkeypatch):
    ada, url = browse("ada"), browse("ada").post("/reviews/new", FORM).headers["Location"]
    campaign = Campaign.objects.get()
    assert ada.post(f"{url}retry").status_code == 400
    with monkeypatch.context() as broken:
        broken.setattr("grants.reviews.preparation.MAX_ITEMS", 0)
        execute_preparation(number=campaign.pk)
    page = ada.get(url)
    text = text_of(page)
    assert (
        "more than 0 items, which is the limit" in text
        and "Prepare again" in text
        and 'id="items"' not in page_html(page)
    )
    assert "Prepare again" not in text_of(browse("aud").get(url))
    assert ada.post(f"{url}retry").status_code == 303
    campaign.refresh_from_db()
    assert (campaign.state, campaign.error, campaign.job.state) == ("preparing", "", JobState.WAITING)
    assert JournalLine.objects.latest("pk").action == "review-retry"
    Campaign.objects.update(state="failed", deadline=campaign.created_at)
    assert "The deadline has passed" in text_of(ada.post(f"{url}retry"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": ""}, "The title is empty"),
        ({"deadline": ""}, "The deadline is missing"),
        ({"deadline": "soon"}, "is not a time"),
        ({"deadline": "2001-01-01"}, "in the past"),
        ({"namespace": "none"}, "not registered"),
        ({"unused_days": "x"}, "not a whole number"),
        ({"kind": "table"}, "is not one of"),
        ({"source": ["membership"]}, "The scope is empty"),
        ({"reviewer_rule": "group"}, "Name a group of reviewers"),
        ({"user": "none"}, "does not exist"),
    ],
)
def test_a_bad_form_keeps_its_values_and_names_the_field(browse, changes, message):
    response = browse("ada").post("/reviews/new", FORM | changes)
    assert response.status_code == 400 and message in text_of(response)
    if changes.get("title") != "":
        assert 'value="Quarterly review"' in page_html(response)
    assert not Campaign.objects.exists()


def test_the_form_previews_who_reviews_how_many_items(browse, cast):
    part = {"HX-Request": "true", "HX-Target": "review-preview"}
    ada, options = (
        browse("ada"),
        {name: value for name, value in FORM.items() if name not in ("title", "deadline")},
    )
    text = text_of(ada.get("/reviews/new", options, headers=part))
    campaign = open_campaign(
        reviewer_rule="admin-holders", scope={"sources": ["user", "group"], "namespace": "sales"}
    )
    assert f"{campaign.item_count} items now:" in text
    for share in campaign.shares.filter(item_count__gt=0):
        name = share.reviewer.username if share.reviewer else "administrators"
        assert f"{name} {share.item_count}" in text
    assert Campaign.objects.count() == 1, "a preview stores nothing"
    refused = text_of(ada.get("/reviews/new", options | {"user": "none"}, headers=part))
    assert "does not exist" in refused and "items" not in refused
    for name in ("ned", "aud"):
        hidden = browse(name).get("/reviews/new", options, headers=part)
        assert hidden.status_code in (403, 404) and "items now" not in text_of(hidden)


def test_pages_of_items_have_the_same_cost_and_reach_every_item(
    browse, review, monkeypatch, django_assert_num_queries
):
    monkeypatch.setattr("authzconsole.web.reviews.review_pages.ITEMS_PER_PAGE", 4)
    ada, url, seen = browse("ada"), f"/reviews/{review.pk}/?answer=all", []
    while url:
        with django_assert_num_queries(14):
            response = ada.get(url)
        seen += [row["item"].pk for row in response.context["rows"]]
        last, url = response, response.context["page"].next_url
    assert seen == sorted(review.items.values_list("pk", flat=True))
    first_of_last = last.context["rows"][0]["item"].pk
    previous = [row["item"].pk for row in ada.get(last.context["page"].previous_url).context["rows"]]
    assert previous == [pk for pk in seen if pk < first_of_last][-4:]


def test_the_page_shows_the_reviewers_with_most_to_answer_and_the_list_all_of_them(
    browse, cast, monkeypatch, django_assert_num_queries
):
    monkeypatch.setattr("authzconsole.web.reviews.review_pages.SHOWN_REVIEWERS", 1)
    review = open_campaign(reviewer_rule="admin-holders")
    ada, url = browse("ada"), f"/reviews/{review.pk}/reviewers"
    shares = sorted(review.shares.all(), key=lambda share: -share.open_count)
    page = ada.get(f"/reviews/{review.pk}/")
    assert list(page.context["shares"]) == shares[:1] and url in page_html(page)
    assert f"{len(shares)} reviewers" in text_of(page)
    with django_assert_num_queries(5):
        response = ada.get(url)
    assert [share.open_count for share in response.context["shares"]] == [
        share.open_count for share in shares
    ]
    assert f"/reviews/{review.pk}/?reviewer=ned&amp;answer=all" in page_html(response)
    assert [share.reviewer.username for share in ada.get(f"{url}?text=NE").context["shares"]] == ["ned"]
    assert "No reviewers match" in text_of(ada.get(f"{url}?text=zzz"))


def test_filters_and_downloads_select_the_same_items(browse, review, cast):
    ada = Author("ada", user_id=cast["ada"].pk)
    answer_items(
        author=ada,
        campaign=review,
        selection=ItemSelection(filter=ItemFilter(kind="namespace")),
        answer="keep",
    )
    response = browse("ada").get(f"/reviews/{review.pk}/?answer=keep")
    assert {row["item"].kind for row in response.context["rows"]} == {"namespace"}
    content = b"".join(browse("ada").get(f"/reviews/{review.pk}/items.jsonl?answer=keep").streaming_content)
    assert len(content.splitlines()) == len(response.context["rows"])
    assert f"/reviews/{review.pk}/items.csv?answer=keep" in page_html(response)
    assert "No items match" in text_of(browse("ada").get(f"/reviews/{review.pk}/?principal=nobody"))


def test_items_that_no_longer_exist_are_marked_and_not_asked_for(browse, review):
    ned, url = browse("ned"), f"/reviews/{review.pk}/"
    gone = item_of(review, "user:dee", "dataset:sales.orders")
    box = f'name="item" value="{gone.pk}"'
    assert box in page_html(ned.get(url))
    change_grants(author=COMMAND, revoke=[("user:dee", parse_address("dataset:sales.orders"), "READ")])
    page = ned.get(url)
    assert "already revoked since the review began" in text_of(page) and "no answer needed" in text_of(page)
    assert box not in page_html(page)
    sweep_campaigns()
    removed = ned.get(f"{url}?answer=removed")
    assert (
        "dee" not in text_of(ned.get(url))
        and "already revoked" in text_of(removed)
        and not removed.context["can_answer"]
    )
    assert "0 of 3 items answered, 1 needs none because its access no longer exists" in text_of(ned.get(url))
    assert "0 of 3 (1 removed)" in text_of(ned.get("/reviews/"))
    for extension, text in (("csv", f"{gone.pk},user,user:dee"), ("jsonl", '"removed": "revoked"')):
        assert text in b"".join(ned.get(f"{url}items.{extension}?answer=removed").streaming_content).decode()
    assert "1, without an answer" in text_of(browse("ada").get(f"{url}finish"))


def test_the_membership_of_a_group_in_a_role_is_answered_like_that_of_a_user(browse, cast):
    apply(ChangeSet.of(AddGroup("role:readers"), Include("operators", "role:readers")), author=COMMAND)
    add_grant("role:readers", "dataset:hr.salaries", "READ")
    review, ada = open_campaign(scope={"group": "role:readers"}), browse("ada")
    url = f"/reviews/{review.pk}/"
    page = text_of(ada.get(url))
    assert "grants and memberships of role:readers" in page
    assert "group operators member of role readers" in page and "gives 1 grant" in page
    assert "1 membership in 1 group or role." in page
    item = item_of(review, "group:operators", "role:readers")
    for query in ("source=role-group", "group=role:readers", "principal=group:operators"):
        assert [row["item"] for row in ada.get(f"{url}?{query}").context["rows"]] == [item]
    content = b"".join(ada.get(f"{url}items.csv?source=role-group").streaming_content).decode()
    assert f"{item.pk},role-group,group:operators,,,role:readers" in content
    confirmation = ada.post(f"{url}answers", {"item": item.pk, "answer": "shorten"})
    assert "group:operators in role:readers" in text_of(confirmation)
    ada.post(f"{url}answers", {"item": item.pk, "answer": "revoke"})
    assert "1 membership in 1 group or role." in text_of(ada.get(f"{url}finish"))
    ada.post(f"{url}finish", {})
    execute_finish(number=review.pk)
    plan = text_of(ada.get(f"/plans/{Plan.objects.get().pk}/"))
    assert "role readers leave group operators" in plan


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("dee", {"user"}),
        ("user:dee", {"user"}),
        ("group:dee", set()),
        ("group:operators", {"group"}),
        ("user:operators", set()),
    ],
)
def test_the_filter_by_user_or_group_accepts_the_written_form(browse, review, text, sources):
    response = browse("ada").get(f"/reviews/{review.pk}/?answer=all&principal={text}")
    assert {row["item"].source for row in response.context["rows"]} == sources


def test_a_review_without_a_plan_says_why(browse, review, cast):
    item = item_of(review, "user:dee", "dataset:sales.orders")
    browse("ada").post(f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "keep"})
    browse("ada").post(f"/reviews/{review.pk}/finish", {"reason": "done"})
    execute_finish(number=review.pk)
    assert "There is no plan, because no item is to be revoked or shortened. No access changes." in text_of(
        browse("ada").get(f"/reviews/{review.pk}/")
    )


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"select": "all", "filter_unknown": "x"},
        {"select": "all", "filter_principal": "x\0y"},
        {"item": list(range(1, 1_002))},
        {"select": "all", "answer": "assign", "reviewer": "x\0y"},
    ],
)
def test_invalid_selections_are_refused_with_a_page(browse, review, sent):
    for confirm in ("", "yes"):
        form = {"answer": "keep", "confirm": confirm} | sent
        assert browse("ned").post(f"/reviews/{review.pk}/answers", form).status_code in (200, 400)
    assert not ReviewItem.objects.exclude(answer="").exists()


def test_a_scope_with_characters_that_cannot_be_stored_is_refused(browse):
    ada, form = browse("ada"), FORM | {"namespace": "", "reviewer_rule": "group"}
    for name in ("namespace", "user", "group", "reviewer_group", "escalation_group"):
        assert ada.post("/reviews/new", form | {name: "x\0y"}).status_code == 400


def test_without_recorded_use_no_access_is_called_unused(browse, cast):
    assert "nothing is known to be unused" in text_of(browse("ada").get("/reviews/new"))
    review = open_campaign(scope={"unused_days": 90})
    url = f"/reviews/{review.pk}/"
    text = text_of(browse("ada").get(url))
    assert "Items may be in use." in text and "use is not recorded" in text
    orders, today = Entity.objects.get(key="sales.orders"), timezone.now().date()
    UsageDay.objects.create(user=cast["ned"], entity=orders, day=today - timedelta(days=100), count=3)
    text = text_of(browse("ada").get(url))
    assert "Items may be in use" not in text and "no recorded use" in text


def test_an_inactive_user_is_named_on_the_page_and_in_the_files(browse):
    review = open_campaign(scope={"user": "ina"})
    assert "the user is inactive" in text_of(browse("ada").get(f"/reviews/{review.pk}/"))
    lines = (
        b"".join(browse("ada").get(f"/reviews/{review.pk}/items.csv").streaming_content).decode().splitlines()
    )
    assert [line.rpartition(",")[2] for line in lines] == ["active", "false"]


def test_the_badge_of_an_approver_counts_only_its_own_items(browse, review, cast):
    create_role_accounts()
    client = browse()
    client.force_login(account("app"))
    assert review.items.filter(reviewer=None).exists() and client.get("/reviews/count").status_code == 204


def test_the_page_that_confirms_an_answer_names_the_items(browse, review):
    item = item_of(review, "user:dee", "dataset:sales.orders")
    page = browse("ned").post(f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "shorten"})
    assert "user:dee on dataset:sales.orders" in text_of(page)


def test_the_namespace_of_a_review_is_suggested(browse, htmx):
    page = browse("ada").get("/search?namespace=sal", headers=htmx("review-namespace-suggestions"))
    assert 'data-value="namespace:sales"' in page_html(page) and "dataset:sales" not in page_html(page)


def test_a_review_says_first_what_its_items_give(browse, cast, review):
    text = text_of(browse("ada").get(f"/reviews/{review.pk}/"))
    assert text.index("What these items give") < text.index("Add filter")
    assert "Administers" in text and "in sales" in text
    given = browse("ned").get(f"/reviews/{review.pk}/").context["levels"]["sentences"]
    assert "Reads 1 dataset in sales." in given and not any("Administers" in sentence for sentence in given)


def test_a_large_review_says_what_all_items_gave_and_what_those_on_a_page_give(
    browse, cast, review, monkeypatch
):
    monkeypatch.setattr("authzconsole.web.reviews.review_pages.MAX_ITEMS", 1)
    ada, url = browse("ada"), f"/reviews/{review.pk}/"
    assert "What all items gave when the review was prepared" in text_of(ada.get(url))
    filtered = text_of(ada.get(f"{url}?kind=dataset&privilege=READ"))
    assert "What the items on this page give" in filtered and "Reads 1 dataset in sales." in filtered
    reviewer = text_of(browse("ned").get(url))
    assert "What the items on this page give" in reviewer and "when the review was prepared" not in reviewer


def test_the_items_of_one_reviewer_are_summarized_in_a_large_review(browse, cast, review, monkeypatch):
    own = review.shares.get(reviewer__username="ned").item_count
    monkeypatch.setattr("authzconsole.web.reviews.review_pages.MAX_ITEMS", own)
    page = browse("ada").get(f"/reviews/{review.pk}/?reviewer=ned")
    assert review.item_count > own and "What these items give" in text_of(page)


def test_the_pages_that_answer_and_finish_say_what_the_items_give(browse, cast, review):
    ada = browse("ada")
    item = item_of(review, "user:dee", "dataset:sales.orders")
    shorten = ada.post(f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "shorten"})
    assert "What these items give Reads 1 dataset in sales." in text_of(shorten)
    finish = f"/reviews/{review.pk}/finish"
    assert "What the plan revokes or shortens" not in text_of(ada.get(finish))
    ada.post(f"/reviews/{review.pk}/answers", {"item": item.pk, "answer": "revoke"})
    assert "What the plan revokes or shortens Reads 1 dataset in sales." in text_of(ada.get(finish))


def test_an_item_says_when_its_user_last_signed_in(browse, cast):
    User.objects.filter(username="dee").update(last_login=timezone.now().replace(year=2026, month=3, day=4))
    review = open_campaign(scope={"user": "dee"})
    for name in ("ada", "aud"):
        assert "signed in 4 March 2026" in text_of(browse(name).get(f"/reviews/{review.pk}/"))
    assert "signed in" not in text_of(
        browse("ada").get(f"/reviews/{open_campaign(scope={'user': 'ned'}).pk}/")
    )
