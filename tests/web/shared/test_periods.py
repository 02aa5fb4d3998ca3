"""Pages read and show periods in the time zone of the reader."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.utils import timezone

from authzconsole.web.shared.times import (
    PERIOD_FIELDS,
    fields_of_period,
    period_badge,
    period_of_form,
    presets,
)
from entities.address import parse_address
from grants.journal import Author
from grants.models import AccessRequest, Membership, Plan, UserGrant
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.validity import Validity, ValidityError
from tests.support.authors import account
from tests.support.changes import (
    add_grant,
    add_member,
    apply_plan,
    change_grants,
    change_planned_grants,
    create_inverse,
    create_plan_from_changes,
)
from tests.support.pages import post_as_shown, shown_effect_of_plan

ORDERS = "dataset:sales.orders"
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime.now(UTC).replace(microsecond=0)
SOON, LATER = Validity(None, NOW + timedelta(days=2)), Validity(None, NOW + timedelta(days=20))


def fields(**values) -> dict:
    return dict.fromkeys(PERIOD_FIELDS, "") | values


@pytest.fixture
def berlin():
    with timezone.override(BERLIN):
        yield


@pytest.fixture
def administrator(browse):
    client = browse("ada")
    client.cookies["time_zone"] = "Europe/Berlin"
    return client


def stored_validity(name="out") -> Validity:
    return UserGrant.objects.get(user__username=name, content_object__key="sales.orders").validity


def page(client, url) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


def test_a_file_without_times_shows_the_periods_that_it_removes(administrator):
    add_grant("user:out", ORDERS, "READ", SOON)
    created = administrator.post(
        "/plans/import", {"text": f"verb,principal,entity,privilege\ngrant,user:out,{ORDERS},READ\n"}
    )
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page(administrator, created.headers["Location"])))
    assert "1 period to remove" in shown and "Removes the period of 1 existing grant or membership" in shown
    assert "period removed before: until" in shown
    assert stored_validity() == SOON


def test_a_form_is_read_in_the_time_zone_of_the_reader(berlin):
    period = period_of_form(fields(valid_from="2126-07-01T10:00", valid_until="2126-12-01 10:00"))
    assert period == Validity(datetime(2126, 7, 1, 8, tzinfo=UTC), datetime(2126, 12, 1, 9, tzinfo=UTC))
    assert period_of_form(fields(valid_until="2126-07-01T10:00:00-03:00")).valid_until == datetime(
        2126, 7, 1, 13, tzinfo=UTC
    )
    assert period_of_form(fields()) == Validity()
    for validity in (period, SOON, Validity()):
        assert period_of_form(fields_of_period(validity)) == validity


@pytest.mark.parametrize(
    "values, field, message",
    [
        ({"valid_until": "Friday"}, "valid_until", "is not a time"),
        ({"valid_until": "2126-02-30T10:00"}, "valid_until", "is not a time"),
        ({"valid_from": "2027-03-28T02:30"}, "valid_from", "does not exist in Europe/Berlin"),
        ({"valid_until": "2020-01-01T10:00"}, "valid_until", "in the past"),
        (
            {"valid_from": "2126-01-02T10:00", "valid_until": "2126-01-01T10:00"},
            "valid_until",
            "not after the beginning",
        ),
        ({"until_preset": "yesterday"}, "until_preset", "has passed"),
    ],
)
def test_invalid_periods_of_a_form_are_refused(berlin, values, field, message):
    with pytest.raises(ValidityError, match=message) as refused:
        period_of_form(fields(**values))
    assert refused.value.field == field


def test_the_suggested_ends_are_days_of_the_reader(berlin, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 11, 25, 22, 30, 5, tzinfo=UTC))
    # a Wednesday, half past eleven in the evening
    ends = {key: end for key, _, end in presets()}
    assert list(ends) == ["week", "30-days", "3-months", "6-months", "1-year"]
    assert ends["3-months"] == datetime(2027, 2, 25, 22, 30, tzinfo=UTC)
    assert {key: ends[key] for key in ("week", "30-days")} == {
        "week": datetime(2026, 11, 29, 23, tzinfo=UTC),
        "30-days": datetime(2026, 12, 25, 22, 30, tzinfo=UTC),
    }
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 11, 25, 10, tzinfo=UTC))
    assert next(iter(presets()))[2] == datetime(2026, 11, 25, 17, tzinfo=UTC)
    assert period_of_form(fields(until_preset="none", valid_until="2126-07-01T10:00")) == Validity()


def test_badges_say_whether_a_period_counts(berlin, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 11, 25, 10, tzinfo=UTC))
    times = [datetime(2026, 11, day, 23, 30, tzinfo=UTC) for day in (24, 26, 30)] + [
        datetime(2027, 1, 5, 8, tzinfo=UTC)
    ]
    badges = [
        period_badge(Validity(*period))
        for period in (
            (None, None),
            (None, times[0]),
            (times[1], times[2]),
            (None, times[2]),
            (None, times[3]),
            (times[0], None),
        )
    ]
    assert [badge and (badge.status, badge.text) for badge in badges] == [
        None,
        ("expired", "expired"),
        ("future", "from 27 Nov"),
        ("soon", "until 1 Dec"),
        ("limited", "until 5 Jan 2027"),
        ("limited", "since 25 Nov"),
    ]
    assert badges[3].title == "until 1 December 2026, 00:30 CET"


def test_no_page_calls_a_time_of_the_reader_utc():
    """The filter `date` uses the time zone of the reader; `zoned` adds its name.

    Evidence is a file, with times in UTC.
    """
    templates = [
        path
        for path in (Path(settings.BASE_DIR) / "templates").rglob("*.html")
        if path.name != "report_head.html"
    ]
    wrong = re.compile(r'\|date:"[^"]*" \}\}(</\w+>)? UTC')
    assert [path.name for path in templates if wrong.search(path.read_text())] == []


def test_the_time_zone_is_chosen_on_a_page(browse):
    client = browse("dee")
    assert "UTC" in page(client, "/time-zone")
    assert client.post("/time-zone", {"zone": "Mars/Olympus"}).status_code == 400
    assert client.post("/time-zone", {"zone": "Asia/Tokyo"}).status_code == 303
    assert '<option value="Asia/Tokyo" selected>' in page(client, "/time-zone")
    client.cookies["time_zone"] = "../../etc"
    assert '<option value="UTC" selected>' in page(client, "/time-zone")


def test_a_grant_is_given_extended_and_freed_of_its_end(administrator):
    url = f"/grant/{ORDERS}"
    sent = {"principal": "user:out", "privilege": "READ", "valid_until": "2126-12-05T17:00"}
    assert "times in Europe/Berlin" in page(administrator, url)
    assert post_as_shown(administrator, url, sent).status_code == 303
    assert stored_validity().valid_until == datetime(2126, 12, 5, 16, tzinfo=UTC)
    form = page(administrator, f"{url}?principal=user:out&privilege=READ")
    assert "until 5 December 2126, 17:00 CET" in form and "Remove end date" in form
    assert post_as_shown(administrator, url, sent | {"until_preset": ["", "30-days"]}).status_code == 303
    assert "is now valid until" in page(administrator, f"/entities/{ORDERS}")
    assert stored_validity().valid_until < NOW + timedelta(days=31)
    post_as_shown(administrator, url, sent | {"until_preset": ["", "none"]})
    assert stored_validity() == Validity()
    refused = administrator.post(url, sent | {"valid_until": "2020-12-05T17:00"})
    assert refused.status_code == 400 and "is in the past" in refused.content.decode()


def test_pages_show_the_periods_of_grants(administrator):
    add_grant("user:out", ORDERS, "READ", SOON)
    local = timezone.localtime(SOON.valid_until, BERLIN)
    for url in (f"/entities/{ORDERS}?tab=access", "/people/user:out"):
        text = page(administrator, url)
        assert f"until {local.day} {local:%b}" in text and f"{local.day} {local:%B %Y, %H:%M}" in text, url
    assert f"until {local.day} {local:%B %Y}" in page(administrator, "/journal/")
    UserGrant.objects.filter(user__username="out").update(valid_until=NOW - timedelta(days=1))
    assert 'class="privilege expired"' in page(administrator, f"/entities/{ORDERS}?tab=access")


def test_memberships_have_periods(administrator):
    sent = {
        "verb": "add",
        "user": "out",
        "group": "operators",
        "page": "user:out",
        "valid_until": "2126-12-05T17:00",
    }
    assert post_as_shown(administrator, "/people/membership", sent).status_code == 303
    assert Membership.objects.get(user__username="out").valid_until == datetime(2126, 12, 5, 16, tzinfo=UTC)
    for url in ("/people/user:out", "/people/group:operators"):
        assert "until 5 Dec 2126" in page(administrator, url)
    form = page(administrator, "/people/membership?verb=add&user=out&group=operators")
    assert 'value="2126-12-05T17:00"' in form and "Extend by 30 days" in form
    post_as_shown(administrator, "/people/membership", sent | {"until_preset": "none"})
    assert not Membership.objects.get(user__username="out").validity.is_limited
    assert administrator.post("/people/membership", sent | {"valid_until": "x"}).status_code == 400
    add_member("out", "operators", LATER)
    assert "before: without limits" in page(administrator, "/journal/")


def test_a_bulk_change_has_a_period_that_its_plan_shows(administrator):
    sent = {
        "verb": "grant",
        "principal": "user:out",
        "privilege": "READ",
        "address": ORDERS,
        "valid_until": "2126-12-05T17:00",
    }
    answer = administrator.post("/plans/many", sent, follow=True)
    assert "until 5 Dec 2126" in answer.content.decode()


def test_limited_access_is_listed_by_its_end(administrator):
    change_grants(
        grant=[
            ("user:out", ORDERS, "READ", SOON),
            ("user:dee", ORDERS, "WRITE", LATER),
            ("group:operators", ORDERS, "READ", Validity(LATER.valid_until)),
        ]
    )
    add_member("out", "operators", SOON)
    UserGrant.objects.filter(user__username="dee", valid_until=LATER.valid_until).update(
        valid_until=NOW - timedelta(days=1)
    )
    rows = {
        show: page(administrator, f"/limited?show={show}").count('<th scope="row">')
        for show in ("soon", "limited", "future", "expired")
    }
    assert rows == {"soon": 2, "limited": 2, "future": 1, "expired": 1}
    assert page(administrator, "/limited?show=soon&principal=group:operators").count('<th scope="row">') == 1
    assert page(administrator, "/limited?show=soon&within=namespace:sales").count('<th scope="row">') == 1
    assert page(administrator, "/limited?show=soon&within=namespace:hr").count('<th scope="row">') == 0
    for url in ("/limited?show=soon&within=nowhere", "/limited?show=soon&principal=user:"):
        assert administrator.get(url).status_code == 400
    assert "grants and memberships end within 7 days" in page(administrator, "/")
    for url in (f"/entities/{ORDERS}?tab=access", "/people/user:dee"):
        assert "Expired grants (1)" in page(administrator, url), url


def test_expired_access_is_revoked_with_a_plan(administrator):
    add_grant("user:out", ORDERS, "READ", SOON)
    add_member("out", "operators", SOON)
    assert "has expired" in administrator.post("/plans/expired", follow=True).content.decode()
    for model in (UserGrant, Membership):
        model.objects.filter(user__username="out").update(valid_until=NOW - timedelta(days=1))
    assert administrator.post("/plans/expired", {"within": ORDERS}, follow=True).status_code == 200
    assert Plan.objects.latest("pk").items.get().verb == "revoke"
    administrator.post("/plans/expired")
    plan = Plan.objects.latest("pk")
    apply_plan(plan)
    assert (
        not UserGrant.objects.filter(user__username="out").exists()
        and not Membership.objects.filter(user__username="out").exists()
    )
    apply_plan(create_inverse(plan))
    assert stored_validity().valid_until == NOW - timedelta(days=1)


def test_the_queries_of_limited_access_do_not_grow(administrator, django_assert_max_num_queries):
    change_grants(grant=[("user:out", ORDERS, name, SOON) for name in ("READ", "WRITE", "EXECUTE", "ADMIN")])
    with django_assert_max_num_queries(12):
        page(administrator, "/limited?show=soon")


def test_an_account_sees_when_its_access_ends(browse):
    add_grant("user:out", ORDERS, "READ", SOON)
    add_member("out", "operators", LATER)
    text = page(browse("out"), "/my-access")
    for end in (SOON.valid_until, LATER.valid_until):
        assert f"until {end.day} {end:%b}" in text


def test_a_plan_whose_grants_would_have_ended_says_so(administrator):
    plan = create_plan_from_changes(grant=[("user:out", ORDERS, "READ", SOON)])
    assert "would have ended already" not in page(administrator, f"/plans/{plan.pk}/")
    change_planned_grants(plan, valid_until=NOW - timedelta(days=1))
    assert "would have ended already" in page(administrator, f"/plans/{plan.pk}/")
    refused = administrator.post(
        f"/plans/{plan.pk}/apply", shown_effect_of_plan(administrator, plan) | {"reason": "x"}
    )
    assert refused.status_code == 400 and "is in the past" in refused.content.decode()
    # the plan of a review can be renewed: it then revokes what has ended
    Plan.objects.update(origin="review")
    assert (
        "A new end in this plan has passed" in (shown := page(administrator, f"/plans/{plan.pk}/"))
        and "Renew plan" in shown
    )


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("America/New_York", "9999-12-31T23:59"),
        ("Asia/Tokyo", "0001-01-01T00:00"),
        ("UTC", "9999-12-31T23:59:59-14:00"),
        ("UTC", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_a_time_that_the_calendar_does_not_have_is_refused(zone, text):
    with timezone.override(ZoneInfo(zone)), pytest.raises(ValidityError, match="is not a time"):
        period_of_form(fields(valid_from=text))


def test_the_last_hours_of_the_calendar_are_shown_everywhere(browse):
    """Other systems use them for "no end".

    They do not exist in time zones ahead of UTC, which must break no page.
    """
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    add_grant("user:out", ORDERS, "READ", Validity(datetime(1, 1, 1, tzinfo=UTC), end))
    create_request(
        author=Author("dee", user_id=account("dee").pk),
        draft=RequestDraft("close", [WantedAccess(parse_address(ORDERS), "write")], requested_until=end),
    )
    request = AccessRequest.objects.get()
    for zone in ("Asia/Tokyo", "America/New_York"):
        ada = browse("ada")
        ada.cookies["time_zone"] = zone
        for url in (
            f"/entities/{ORDERS}?tab=access",
            "/limited?show=limited",
            f"/requests/{request.pk}/",
            "/requests/",
            f"/grant/{ORDERS}?principal=user:out&privilege=READ",
            "/people/user:out",
        ):
            assert "9999" in page(ada, url) or "requests" in url, url
