"""Test the page of the limits of delegation, and the same over REST."""

import pytest

from grants.authority.limits import DelegationLimits
from grants.models import JournalLine
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db
PAGE, REST = "/requests/delegation", "/api/v1/delegation-limits"


@pytest.fixture(autouse=True)
def delegation(settings):
    settings.DELEGATION, settings.DELEGATION_PRIVILEGES, settings.DELEGATION_MAX_DAYS = (
        True,
        ["READ", "WRITE"],
        90,
    )


def test_an_administrator_changes_the_limits_on_the_page(browse):
    ada = browse("ada")
    text = page_html(ada.get(PAGE))
    assert 'value="WRITE" checked' in text and 'value="ADMIN"' not in text and 'placeholder="90"' in text
    assert f'href="{PAGE}"' in page_html(ada.get("/requests/"))
    form = {
        "privilege": ["READ"],
        "kinds": "some",
        "kind": ["dataset", "table"],
        "max_days": "30",
        "reason": "trial",
    }
    assert ada.post(PAGE, form).status_code == 303
    assert DelegationLimits.current() == DelegationLimits(frozenset({"READ"}), frozenset({"dataset"}), 30)
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.actor, line.reason) == ("delegation-set", "ada", "trial")
    text = page_html(ada.get(PAGE))
    assert (
        'value="dataset" checked' in text
        and 'value="30"' in text
        and "Limits of delegation changed" in page_html(ada.get("/journal/"))
    )
    for change, message in (
        ({"max_days": "91"}, "at most 90 days"),
        ({"max_days": "-1"}, "not a whole number"),
        ({"kind": []}, "select at least one"),
    ):
        answer = ada.post(PAGE, form | change)
        assert (
            answer.status_code == 400
            and message in page_html(answer)
            and 'value="trial"' in page_html(answer)
        )


def test_others_read_the_limits_or_do_not_see_the_page(browse):
    auditor = browse("aud")
    assert "Save limits" not in page_html(auditor.get(PAGE)) and auditor.post(PAGE, {}).status_code == 403
    assert browse("ned").get(PAGE).status_code == browse("ned").post(PAGE, {}).status_code == 404


def test_without_delegation_the_page_says_that_it_is_off(browse, settings):
    settings.DELEGATION = False
    assert "Delegation is off" in page_html(browse("ada").get(PAGE))


def test_rest_reads_and_sets_the_limits(browse):
    ada = browse("ada")
    upper = {"privileges": ["READ", "WRITE"], "kinds": None, "max_days": 90}
    assert ada.get(REST).json() == upper | {"delegation": True, "upper": upper}
    limits = {"privileges": ["READ"], "kinds": ["stream"], "max_days": 7}
    answer = ada.put(REST, limits | {"reason": "trial"}, content_type="application/json")
    assert answer.json() == limits | {"delegation": True, "upper": upper}
    assert (
        ada.put(REST, limits | {"privileges": ["ADMIN"]}, content_type="application/json").status_code == 400
    )
    assert ada.put(REST, limits | {"kinds": []}, content_type="application/json").status_code == 400
    assert browse("aud").put(REST, limits, content_type="application/json").status_code == 403
    assert browse("ned").get(REST).status_code == 403
