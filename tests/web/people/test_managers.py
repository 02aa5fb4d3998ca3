"""The manager of a user on the page of the user, and the form that sets it."""

import pytest

from grants.journal import current_revision
from grants.models.reviews import UserManagerLink
from grants.reviews.reviewers import set_manager
from tests.support.authors import lines_after
from tests.support.cast import SETUP
from tests.support.changes import add_user
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db
URL = "/people/manager/user:dee"


def managers() -> list[tuple[str, str]]:
    return sorted(UserManagerLink.objects.values_list("user__username", "manager__username"))


def test_an_administrator_sets_and_removes_the_manager(browse):
    ada, before = browse("ada"), current_revision()
    assert "No manager" in page_html(ada.get("/people/user:dee")) and URL in page_html(
        ada.get("/people/user:dee")
    )
    answer = ada.post(URL, {"manager": "user:ned", "reason": "new team"}, follow=True)
    assert "The manager of user:dee is user:ned now." in page_html(answer) and managers() == [("dee", "ned")]
    assert answer.context["manager"]["manager"].username == "ned" and 'value="user:ned"' in page_html(
        ada.get(URL)
    )
    assert [user.username for user in ada.get("/people/user:ned").context["manager"]["reports"]] == ["dee"]
    assert "nothing changed" in page_html(ada.post(URL, {"manager": "ned"}, follow=True))
    ada.post(URL, {"manager": ""})
    assert (
        managers() == [] and [line[:2] for line in lines_after(before)] == [("user-change", "user:dee")] * 2
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody", "user:nobody does not exist"),
        ("dee", "cannot be their own manager"),
        ("robot", "is a service account"),
        ("group:operators", "does not exist"),
    ],
)
def test_an_invalid_manager_is_refused_and_stays_in_the_form(browse, cast, name, message):
    add_user("robot", is_service=True)
    answer = browse("ada").post(URL, {"manager": name, "reason": "new team"})
    text = page_html(answer)
    assert (
        answer.status_code == 400
        and message in text
        and f'value="{name}"' in text
        and 'value="new team"' in text
    )
    assert managers() == []


def test_auditors_see_the_manager_and_accounts_do_not_see_their_own(browse, cast):
    set_manager(author=SETUP, name="dee", manager="ned")
    page = browse("aud").get("/people/user:dee")
    assert page.context["manager"]["manager"].username == "ned" and URL not in page_html(page)
    assert not browse("dee").get("/my-access").context["manager"] and managers() == [("dee", "ned")]
    assert browse("ada").get("/people/manager/group:operators").status_code == 404


def test_the_page_lists_a_limited_number_of_reports(browse, cast, monkeypatch):
    monkeypatch.setattr("authzconsole.web.people.principal_page.MAX_REPORTS", 1)
    for name in ("dee", "out"):
        set_manager(author=SETUP, name=name, manager="ned")
    assert "Only the first 1 by name" in page_html(browse("aud").get("/people/user:ned"))
