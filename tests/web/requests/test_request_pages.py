"""Test the pages of access requests: form, list, decision and approvers."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from authzconsole.web.forms import end_of_day, last_day
from entities.address import parse_address
from grants.models import AccessRequest, NamespaceApprovers, Plan, RequestState, User, UserGrant
from grants.requests.approvers import set_namespace_approvers
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.stewards import add_steward
from grants.validity import Validity
from tests.support.authors import COMMAND, author_named
from tests.support.changes import add_grant, add_group, add_member, remove_member
from tests.support.guardrails import add_guardrail
from tests.support.pages import page_html, text_of, with_effect

pytestmark = pytest.mark.django_db
FORM = {
    "entity": "dataset:sales.orders",
    "operation": "read",
    "reason": "quarterly close",
    "until": "2126-12-04",
}


def send(client, **fields):
    return client.post("/requests/new", {name: value for name, value in (FORM | fields).items() if value})


def new_request(client, **fields) -> str:
    """Send the form, and return the URL of the request."""
    answer = send(client, **fields)
    assert answer.status_code == 303, page_html(answer)
    return answer.headers["Location"]


def approval_fields(page) -> dict[str, str]:
    """Return the fields of the form that approves, as a browser sends them after the approver has confirmed
    the effect.
    """
    form = re.search(r'action="[^"]*/approve".*?</form>', page.content.decode(), re.DOTALL)[0]
    fields = dict(re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', form))
    fields |= dict.fromkeys(re.findall(r'type="checkbox" name="(part-\d+)" value="yes" checked', form), "yes")
    fields |= dict(re.findall(r'type="radio" name="([\w-]+)" value="(\w+)" checked', form))
    fields |= dict(re.findall(r'type="checkbox" name="(beyond)" value="(yes)" required', form))
    fields |= dict(re.findall(r'name="(until)" value="([^"]*)"', form))
    return {name: value for name, value in fields.items() if name != "csrfmiddlewaretoken"}


def test_a_request_is_sent_approved_and_followed(browse):
    url = new_request(browse("out"))
    assert "read" in page_html(browse("out").get(url)) and "Withdraw request" in page_html(
        browse("out").get(url)
    )
    assert page_html(browse("ada").get("/requests/count")).count(">1<") == 1
    page = browse("ada").get(with_effect(url))
    fields = approval_fields(page)
    text = re.sub(r"<[^>]+>", "", page_html(page))
    assert fields["until"] == "2126-12-04" and "Proposal: READ on" in text
    assert "Access until 4 December 2126" in text and "5 December" not in text
    assert browse("ada").post(f"{url}approve", fields).status_code == 303
    grant = UserGrant.objects.get(user__username="out")
    assert str(grant.privilege) == "READ" and f"{grant.valid_until:%Y-%m-%d %H:%M}" == "2126-12-05 00:00"
    assert browse("out").get(url).context["row"].state == RequestState.APPROVED
    assert browse("ada").get("/requests/count").status_code == 204


def test_the_page_appears_without_the_effect_and_loads_it_only_for_approvers(browse, htmx):
    url = new_request(browse("out"))
    first = page_html(browse("ada").get(url))
    assert "Computing the effect" in first and "/approve" not in first and 'hx-trigger="load"' in first
    part = page_html(browse("ada").get(url, headers=htmx("decide")))
    assert "<html" not in part and "/approve" in part and "load" not in part
    for name, status in (("out", 200), ("aud", 200), ("ned", 404), ("dee", 404)):
        response = browse(name).get(url, headers=htmx("decide"))
        assert response.status_code == status and b"/approve" not in response.content


def test_an_approver_shortens_the_period_and_chooses_a_proposal(browse, htmx):
    url = new_request(browse("out"), operation="get")
    page = browse("ada").get(with_effect(url))
    proposals = page.context["decide"]["parts"][0]["background"].proposals
    assert len(proposals) == 4
    chosen = approval_fields(page) | {"proposal-1": proposals[-1].id, "until": "2126-12-01"}
    refused = browse("ada").post(f"{url}approve", chosen)
    assert refused.status_code == 409 and "has changed since it was shown" in page_html(refused)
    for shown in (
        browse("ada").post(f"{url}approve", chosen | {"preview": "yes"}),
        browse("ada").get(url, chosen, headers=htmx("decide")),
    ):
        assert shown.status_code == 200 and approval_fields(shown)["proposal-1"] == proposals[-1].id
    assert browse("ada").post(f"{url}approve", approval_fields(shown)).status_code == 303
    grant = UserGrant.objects.get(user__username="out")
    assert (str(grant.privilege), f"{grant.valid_until:%Y-%m-%d}") == (
        str(proposals[-1].grants[0][1]),
        "2126-12-02",
    )


def test_an_approval_confirms_side_effects_but_not_what_comes_with_the_grant(browse):
    url = new_request(browse("out"), operation="list")
    (part,) = browse("ada").get(with_effect(url)).context["decide"]["parts"]
    ways = {str(proposal.grants[0][1]): proposal for proposal in part["background"].proposals}
    assert ways["READ"].beyond > 0 < ways["READ"].side_effects < ways["ADMIN"].side_effects
    chosen = {"chosen": "yes", "part-1": "yes", "proposal-1": ways["ADMIN"].id}
    page = browse("ada").post(f"{url}approve", chosen | {"preview": "yes"})
    count = ways["ADMIN"].side_effects
    assert f"Also give {count} permissions beyond what was requested" in page_html(page)
    fields = approval_fields(page)
    refused = browse("ada").post(
        f"{url}approve", {name: value for name, value in fields.items() if name != "beyond"}
    )
    assert refused.status_code == 409 and "permissions as side effects" in page_html(refused)
    assert not UserGrant.objects.filter(user__username="out").exists()
    assert browse("ada").post(f"{url}approve", fields).status_code == 303


@pytest.mark.parametrize("level", ["block", "warn"])
def test_an_approver_reads_which_guardrail_an_approval_would_violate(browse, level):
    add_guardrail(
        "no-readers", {"forbid": {"privileges": ["READ"], "within": "namespace:sales"}, "level": level}
    )
    url = new_request(browse("out"))
    page = browse("ada").get(with_effect(url))
    assert "user:out would hold READ on dataset:sales.orders" in text_of(page)
    is_refused = level == "block"
    assert ("The change will be refused" in text_of(page)) == is_refused
    assert page.context["decide"]["can_approve"] != is_refused
    answer = browse("ada").post(f"{url}approve", approval_fields(page))
    assert answer.status_code == (400 if is_refused else 303)


def test_an_approver_can_choose_an_end_before_the_access_would_violate_a_guardrail(browse):
    today = timezone.localdate()
    add_group("contractors")
    begins = timezone.now() + timedelta(days=20)
    add_member("out", "contractors", validity=Validity(valid_from=begins.replace(microsecond=0)))
    forbid = {"members_of": "group:contractors", "privileges": ["READ"], "within": "namespace:sales"}
    add_guardrail("no-readers", {"forbid": forbid})
    url = new_request(browse("out"))
    client = browse("ada")
    assert not client.get(with_effect(url)).context["decide"]["can_approve"]
    chosen = f"{with_effect(url)}&until={today + timedelta(days=5)}"
    page = client.get(chosen)
    assert page.context["decide"]["can_approve"]
    assert client.post(f"{url}approve", approval_fields(page)).status_code == 303


def test_an_approver_who_does_not_see_all_grants_reads_only_the_name_of_the_guardrail(browse):
    add_guardrail("no-readers", {"forbid": {"privileges": ["READ"], "within": "namespace:sales"}})
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    text = text_of(browse("grp").get(with_effect(new_request(browse("out")))))
    assert "guardrail no-readers forbids this change" in text.lower() and "would hold" not in text


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"reason": ""}, 400, "The reason is missing"),
        ({"entity": ""}, 400, "The address is missing"),
        ({"entity": "dataset:sales"}, 400, "sales"),
        ({"operation": ""}, 400, "Choose what you need"),
        ({"operation": "start"}, 400, "not an operation of a dataset"),
        ({"until": "2020-01-01"}, 400, "in the past"),
        ({"until": "tomorrow"}, 400, "is not a date"),
    ],
)
def test_an_invalid_form_is_shown_again(browse, fields, status, message):
    answer = send(browse("out"), **fields)
    assert answer.status_code == status and message in page_html(answer)
    assert not AccessRequest.objects.exists()


def test_what_is_held_or_pending_is_refused_with_a_link(browse):
    assert "can already" in page_html(send(browse("dee")))
    url = new_request(browse("out"))
    again = send(browse("out"))
    assert again.status_code == 409 and f'href="{url}"' in page_html(again)


def test_the_answer_does_not_tell_whether_an_address_exists(browse):
    pages = []
    for address in ("dataset:hr.salaries", "dataset:hr.nothings"):
        page = page_html(browse("out").get(new_request(browse("out"), entity=address)))
        page = re.sub(r'csrfmiddlewaretoken" value="\w+"|equests?[/ ]\d+|\d+ seconds? ago|just now', "", page)
        pages.append(
            re.sub(r"<time.*?</time>|\d+:\d+(:\d+)? UTC", "", page.replace(address.partition(".")[2], "NAME"))
        )
    assert pages[0] == pages[1]


def test_strangers_and_requesters_do_not_decide(browse):
    url = new_request(browse("out"))
    for name in ("dee", "ned"):
        assert (
            browse(name).get(url).status_code == 404 and browse(name).post(f"{url}approve").status_code == 404
        )
        assert "quarterly" not in page_html(browse(name).get("/requests/?show=all"))
    assert (
        b"/approve" not in browse("out").get(url).content
        and b"/approve" not in browse("aud").get(url).content
    )
    steps = {"approve": {"chosen": "yes", "part-1": "yes"}, "deny": {"reason": "x"}, "ask": {"question": "x"}}
    for name in ("out", "aud"):
        for step, fields in steps.items():
            assert browse(name).post(f"{url}{step}", fields).status_code == 403
    assert AccessRequest.objects.get().state == RequestState.PENDING


def test_the_group_of_a_namespace_sees_only_its_parts_without_links_to_other_pages(browse):
    assert (
        browse("ada")
        .post("/requests/approvers", {"namespace": "namespace:sales", "group": "operators"})
        .status_code
        == 303
    )
    assert NamespaceApprovers.objects.get().group.name == "operators"
    assert browse("aud").post("/requests/approvers", {"namespace": "namespace:sales"}).status_code == 403
    assert "operators" in page_html(browse("aud").get("/requests/approvers"))
    url = new_request(browse("out"))
    page = browse("grp").get(with_effect(url))
    assert "/people/" not in page_html(page)
    ((address, text),) = page.context["decide"]["rows"]
    assert str(address) == "dataset:sales.orders" and text.startswith("requested: read; also list")
    assert {str(address) for address, _ in browse("ada").get(with_effect(url)).context["decide"]["rows"]} > {
        "dataset:sales.orders"
    }
    assert browse("grp").get("/requests/").context["rows"][0][1] == "read dataset:sales.orders"
    assert browse("grp").post(f"{url}approve", approval_fields(page)).status_code == 303
    assert UserGrant.objects.filter(user__username="out").exists()
    assert (
        browse("ada")
        .post("/requests/approvers", {"namespace": "dataset:sales.orders", "group": "x"})
        .status_code
        == 400
    )


def test_the_list_of_a_delegate_says_why_it_contains_a_request(browse, settings):
    settings.DELEGATION = True
    url = new_request(browse("out"))
    assert "access to what you administer" in page_html(browse("ned").get("/requests/"))
    assert "dataset:sales.orders" in page_html(browse("ned").get(with_effect(url)))


def test_a_request_is_asked_about_rejected_and_withdrawn(browse):
    url = new_request(browse("out"))
    assert browse("ada").post(f"{url}ask", {"question": "For which report?"}).status_code == 303
    page = page_html(browse("out").get(url))
    assert "For which report?" in page and "Send answer" in page
    assert browse("out").post(f"{url}answer", {"answer": "The yearly one"}).status_code == 303
    assert browse("ada").post(f"{url}deny", {"reason": ""}).status_code == 400
    assert browse("ada").post(f"{url}deny", {"reason": "use the monthly report"}).status_code == 303
    assert "use the monthly report" in page_html(browse("out").get(url))
    late = browse("out").post(f"{url}withdraw")
    assert late.status_code == 409 and "already denied" in page_html(late)
    assert browse("out").post(f"{new_request(browse('out'))}withdraw").status_code == 303


def news_url(page, url: str) -> str:
    """Return the URL at which an open page asks for news."""
    asked = re.search(r'id="request-news".*?hx-get="([^"]*)"', page.content.decode(), re.DOTALL)[1]
    assert asked.startswith(f"{url}?seen=")
    return asked.replace("&amp;", "&")


def test_an_open_page_is_loaded_again_when_an_approver_asks_or_decides(browse, htmx):
    url, headers = new_request(browse("out")), htmx("request-news")
    asked = news_url(browse("out").get(url), url)
    same = browse("out").get(asked, headers=headers)
    assert same.status_code == 204 and "HX-Refresh" not in same.headers
    browse("ada").post(f"{url}ask", {"question": "For which report?"})
    assert browse("out").get(asked, headers=headers).headers["HX-Refresh"] == "true"
    # the requester types an answer, and an approver decides meanwhile
    asked = news_url(browse("out").get(url), url)
    browse("ada").post(f"{url}deny", {"reason": "use the monthly report"})
    answer = browse("out").get(asked, headers=headers)
    assert "HX-Refresh" not in answer.headers and "<textarea" not in page_html(answer)
    assert "changed while this page was open" in text_of(answer) and "hx-get" not in page_html(answer)
    assert "request-news" not in page_html(browse("out").get(url)), "a closed request has no news"


def test_news_of_a_request_are_hidden_from_those_who_do_not_see_it(browse, htmx):
    url = new_request(browse("out"))
    assert browse("dee").get(f"{url}?seen=0", headers=htmx("request-news")).status_code == 404


def test_an_approval_after_a_change_shows_the_new_effect(browse):
    url = new_request(browse("out"))
    fields = approval_fields(browse("ada").get(with_effect(url)))
    add_grant("user:out", "dataset:sales.orders", "READ")
    answer = browse("ada").post(f"{url}approve", fields)
    assert answer.status_code == 409 and "Nothing was changed" in page_html(answer)


def test_the_access_of_a_colleague_is_requested_and_approved_in_part(browse):
    assert "Access like this colleague" in page_html(browse("out").get("/requests/new?colleague=ned"))
    url = new_request(browse("out"), entity="", operation="", colleague="ned")
    assert "customers" not in page_html(browse("out").get(url))
    fields = approval_fields(browse("ada").get(with_effect(url)))
    others = {name: value for name, value in fields.items() if name not in ("part-1", "part-2")}
    shown = browse("ada").post(f"{url}approve", others | {"preview": "yes"})
    approval = approval_fields(shown) | {"comment": "not these"}
    assert browse("ada").post(f"{url}approve", approval).status_code == 303
    assert (
        len(browse("out").get(url).context["parts"])
        == len(fields.keys() & {f"part-{n}" for n in range(1, 20)}) - 2
    )
    nobody = new_request(browse("out"), entity="", operation="", colleague="nobody")
    assert "does not exist, or has no access" in page_html(browse("ada").get(nobody))


def test_levels_at_several_addresses_are_the_parts_of_one_request(browse):
    new_request(
        browse("out"),
        operation="",
        level=["reads", "administers"],
        others="dataset:hr.salaries\nstream:sales.clicks",
    )
    parts = AccessRequest.objects.get().parts.order_by("position")
    assert [f"{part.operation} {part.address}" for part in parts] == [
        "read dataset:sales.orders",
        "update dataset:sales.orders",
        "read dataset:hr.salaries",
        "update dataset:hr.salaries",
        "read-events stream:sales.clicks",
        "update stream:sales.clicks",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"operation": ""}, "Choose what you need to do with it."),
        ({"operation": "", "level": "nothing"}, "Choose what you need to do with it."),
        ({"operation": "", "level": "runs"}, "Nothing at this address can be done at this level"),
        ({"others": "orders"}, "kind"),
        ({"others": "stream:sales.clicks"}, "stream:sales.clicks cannot be requested"),
    ],
)
def test_what_cannot_be_requested_is_explained_beside_the_field(browse, fields, message):
    answer = send(browse("out"), **fields)
    assert answer.status_code == 400 and message in text_of(answer)
    assert not AccessRequest.objects.exists()


def test_the_form_offers_levels_first_and_read_only_once(browse):
    form = browse("out").get("/requests/new?entity=dataset:sales.orders").context["form"]
    assert [value for value, _ in form.fields["level"].choices] == ["sees", "reads", "writes", "administers"]
    labels = dict(form.fields["level"].choices)
    assert (
        labels["reads"] == "Read: read"
        and "update" in labels["administers"]
        and "create" not in labels["administers"]
    )
    offered = [value for _, group in form.fields["operation"].choices[1:] for value, _ in group]
    assert "read" in offered and "READ" not in offered
    # links of denials about a privilege remain
    form = browse("out").get("/requests/new?entity=dataset:sales.orders&operation=READ").context["form"]
    assert "READ" in [value for _, group in form.fields["operation"].choices for value, _ in group]


def test_denials_and_missing_pages_lead_to_the_form(browse):
    link = "/requests/new?entity=dataset:hr.salaries"
    assert link in page_html(browse("out").get("/entities/dataset:hr.salaries"))
    assert f"{link}&amp;operation=read" in page_html(
        browse("out").get("/ask?entity=dataset:hr.salaries&operation=read")
    )
    assert "/requests/new" not in page_html(browse("ada").get("/entities/dataset:hr.nothing"))
    for page in (
        "/ask?subject=user:dee&entity=dataset:sales.orders&operation=write",
        "/entities/dataset:sales.orders?operation=write",
    ):
        assert "/requests/new?entity=dataset:sales.orders&amp;operation=write" in page_html(
            browse("dee").get(page)
        )
    assert "/requests/new" in page_html(browse("out").get("/my-access"))


def test_the_page_of_a_visible_entity_leads_to_the_form(browse):
    link = 'href="/requests/new?entity=dataset:sales.orders">Request access'
    assert link in page_html(browse("dee").get("/entities/dataset:sales.orders"))
    assert link not in page_html(browse("aud").get("/entities/dataset:sales.orders"))
    form = page_html(browse("dee").get("/requests/new?entity=dataset:sales.orders"))
    assert (
        'value="dataset:sales.orders"' in form
        and '<option value="truncate"' in form
        and '<option value="start"' not in form
    )


def test_lists_have_filters_pages_and_empty_states(browse, monkeypatch):
    assert "Nothing to decide" in page_html(browse("ada").get("/requests/"))
    assert "follow it here" in page_html(browse("out").get("/requests/"))
    monkeypatch.setattr("authzconsole.web.requests.lists.REQUESTS_PER_PAGE", 1)
    for number in range(2):
        new_request(browse("out"), entity=f"dataset:sales.d{number}", operation="READ")
    first = browse("ada").get("/requests/")
    assert [title for _, title in first.context["rows"]] == ["READ dataset:sales.d1"]
    second = browse("ada").get(first.context["page"].next_url)
    assert [title for _, title in second.context["rows"]] == ["READ dataset:sales.d0"]
    assert not browse("out").get("/requests/?state=denied").context["rows"]


def test_an_approver_who_loses_the_right_between_page_and_click_approves_nothing(browse):
    """The right comes from the group of the namespace, and from the console role."""
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    url = new_request(browse("out"))
    clients = {name: browse(name) for name in ("grp", "ada")}
    fields = {name: approval_fields(client.get(with_effect(url))) for name, client in clients.items()}
    remove_member("grp", "operators")
    User.objects.filter(username="ada").update(role="ordinary")
    for name, client in clients.items():
        assert client.post(f"{url}approve", fields[name]).status_code == 404, name
    assert AccessRequest.objects.get().state == RequestState.PENDING and not UserGrant.objects.filter(
        user__username="out"
    )


def test_the_list_links_to_its_downloads(browse):
    browse("out").post("/requests/new", FORM)
    page = page_html(browse("ada").get("/requests/?show=all&state=pending"))
    assert 'href="/api/v1/access-requests.csv?show=all&amp;state=pending"' in page
    assert 'href="/api/v1/access-requests.jsonl?show=all&amp;state=pending"' in page


def test_the_queries_of_the_pages_do_not_grow(browse, django_assert_max_num_queries):
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    urls = [
        new_request(browse("out"), entity=f"dataset:sales.d{number}", operation="READ") for number in range(3)
    ]
    for name, limit in (("ada", 6), ("grp", 7), ("out", 7)):
        client = browse(name)
        with django_assert_max_num_queries(limit):
            assert len(client.get("/requests/?show=all").context["rows"]) == 3
    client = browse("ada")
    with django_assert_max_num_queries(45):
        client.get(urls[0])
    client = browse("out")
    with django_assert_max_num_queries(8):
        client.get(urls[0])


def test_days_are_those_of_the_time_zone_of_the_reader():
    with timezone.override("America/New_York"):
        end = end_of_day("2126-12-04")
        assert end.isoformat() == "2126-12-05T05:00:00+00:00" and last_day(end) == "2126-12-04"
    assert end_of_day("2126-12-04").isoformat() == "2126-12-05T00:00:00+00:00" and last_day(None) == ""


def test_the_plan_of_a_request_links_to_it(browse):
    url = new_request(browse("out"))
    browse("ada").post(f"{url}approve", approval_fields(browse("ada").get(with_effect(url))))
    assert f'href="{url}"' in page_html(browse("ada").get(f"/plans/{Plan.objects.get().pk}/"))


def test_a_steward_sees_every_entity_of_the_namespace_that_an_approval_changes(browse, cast):
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:grp")
    url = new_request(browse("out"), operation="update")
    page = browse("grp").get(with_effect(url))
    shown = {str(address) for address, _ in page.context["decide"]["rows"]}
    assert {"namespace:sales", "dataset:sales.orders"} <= shown and page.context["decide"]["hidden"] == 0


def test_an_approver_reads_what_grants_on_an_unregistered_address_would_permit(browse):
    url = new_request(browse("out"), entity="dataset:sales.order", operation="update")
    page = browse("ada").get(with_effect(url))
    text = text_of(page)
    (part,) = page.context["decide"]["parts"]
    assert {"update", "drop"} <= set(part["background"].operations_later)
    assert "No entity is registered at this address." in text and "Similar:" in text
    assert f"{part['background'].part.title}: permitted only once such an entity is live." in text
    assert [str(address) for address in part["background"].similar] == ["dataset:sales.orders"]
    url = new_request(browse("out"), entity="namespace:sale", operation="update")
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sale"), group="operators")
    assert "Similar" in text_of(browse("ada").get(with_effect(url))) and "Similar" not in text_of(
        browse("grp").get(with_effect(url))
    )


def test_the_page_names_the_last_day_where_the_access_or_the_request_ends_with_it(browse):
    text = text_of(
        browse("ada").get(new_request(browse("out"), until=f"{timezone.now() + timedelta(days=2):%Y-%m-%d}"))
    )
    day = f"{(last := timezone.now() + timedelta(days=2)).day} {last:%B %Y}"
    assert f"it expires after {day}." in text and f"Access until {day}" in text


def test_a_renewal_says_which_access_it_extends(browse):
    soon = timezone.now().replace(microsecond=0) + timedelta(days=2)
    add_grant("user:out", "dataset:sales.orders", "READ", Validity(None, soon))
    page = browse("ada").get(with_effect(new_request(browse("out"))))
    text = text_of(page)
    assert "Changes no permission." in text and "Extends READ on dataset:sales.orders from" in text
    assert "to 4 December 2126" in text and "side effect" not in text


def test_parts_are_denied_with_a_reason_and_the_state_says_so(browse):
    draft = RequestDraft(
        "close",
        [
            WantedAccess(parse_address("dataset:sales.orders"), "read"),
            WantedAccess(parse_address("namespace:hr"), "get"),
        ],
    )
    created = create_request(author=author_named("out"), draft=draft)
    url, ada = f"/requests/{created.pk}/", browse("ada")
    fields = approval_fields(ada.get(url, {"chosen": "yes", "part-1": "yes", "preview": "yes"}))
    refused = ada.post(f"{url}approve", fields)
    assert refused.status_code == 400 and "say why in the comment, which the requester reads" in page_html(
        refused
    )
    assert ada.post(f"{url}approve", fields | {"comment": "not hr"}).status_code == 303
    assert "approved in part" in page_html(ada.get(url)) and "approved in part" in page_html(
        ada.get("/requests/?show=all")
    )
    lines = b"".join(ada.get("/api/v1/access-requests.csv").streaming_content).decode()
    assert (
        "approved" in lines
        and "not hr" in lines
        and ",ada," in lines.replace('"', "").replace("[", "").replace("]", "")
    )


@pytest.mark.parametrize("step", ["approve", "deny", "ask", "answer", "withdraw"])
def test_the_url_of_a_step_leads_to_the_request(step, browse):
    url = new_request(browse("out"))
    answer = browse("ada").get(f"{url}{step}")
    assert (answer.status_code, answer.headers["Location"]) == (303, url)


def test_own_access_with_an_end_offers_to_extend_it(browse):
    soon = timezone.now().replace(microsecond=0) + timedelta(days=2)
    add_grant("user:out", "dataset:sales.orders", "READ", Validity(None, soon))
    page = page_html(browse("out").get("/my-access"))
    assert 'href="/requests/new?entity=dataset%3Asales.orders&amp;operation=READ"' in page


def test_an_account_is_told_about_questions_decisions_and_access_that_ends(browse):
    client, url = browse("out"), new_request(browse("out"))

    def own_texts() -> list[str]:
        return [item.text for item in client.get("/").context["problems"]]

    assert own_texts() == [] and client.get("/requests/count").status_code == 204
    assert "Needs attention" not in client.html("/")
    browse("ada").post(f"{url}ask", {"question": "For which report?"})
    assert own_texts() == ["1 question about your requests to answer"]
    assert ">1<" in client.html("/requests/count") and browse("dee").get("/requests/count").status_code == 204
    client.post(f"{url}answer", {"answer": "The yearly one"})
    assert own_texts() == [] and client.get("/requests/count").status_code == 204
    browse("ada").post(f"{url}deny", {"reason": "use the monthly report"})
    assert own_texts() == ["1 request of yours decided in the last 7 days"]
    AccessRequest.objects.update(decided_at=timezone.now() - timedelta(days=8))
    assert own_texts() == []
    add_grant("user:out", "dataset:sales.orders", "READ", Validity(None, timezone.now() + timedelta(days=2)))
    assert own_texts() == ["1 of your grants and memberships ends within 7 days"]
    assert browse("dee").get("/").context["problems"] == []


def test_a_withdrawn_request_is_no_decision(browse):
    browse("out").post(f"{new_request(browse('out'))}withdraw")
    assert browse("out").get("/").context["problems"] == []


def test_an_approver_sees_the_groups_of_the_requester_and_who_has_the_access_already(browse):
    add_grant("user:ned", "dataset:sales.orders", "ADMIN")
    add_grant("user:dee", "dataset:sales.orders", "WRITE")
    url = new_request(browse("grp"), operation="write")
    page = browse("ada").get(with_effect(url))
    (part,) = page.context["decide"]["parts"]
    assert "user:ned" in part["admins"] and "user:dee" in part["others"] and "user:out" not in part["others"]
    text = text_of(page)
    assert (
        "operators" in text.split("About this request")[1]
        and "ADMIN holders" in text
        and "Who else can" in text
    )
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:out")
    page = browse("ada").get(with_effect(url))
    assert page.context["decide"]["parts"][0]["stewards"] == ["user:out"]


def test_an_approver_learns_no_more_than_on_the_page_of_the_entity(browse):
    """A steward sees everything in the namespace, but neither the groups of others nor links to users. A member of the group
    that decides for a namespace sees no holders."""
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:out")
    add_grant("user:ned", "dataset:sales.orders", "WRITE")
    url = new_request(browse("dee"), operation="write")
    page = browse("out").get(with_effect(url))
    assert page.context["groups"] is None and page.context["decide"]["parts"][0]["others"]
    assert 'href="/people/' not in page_html(page)
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    (part,) = browse("grp").get(with_effect(url)).context["decide"]["parts"]
    assert not {"admins", "others", "stewards"} & part.keys()


def test_an_approver_goes_on_to_the_next_request_after_a_decision(browse):
    first, second = new_request(browse("out")), new_request(browse("dee"), operation="write")
    assert "Next request" not in page_html(browse("ada").get(first))
    answer = browse("ada").post(f"{first}deny", {"reason": "not now"}, follow=True)
    assert f'href="{second}">Next request' in page_html(answer)
    assert "Next request" not in page_html(browse("out").get(first))
    answer = browse("ada").post(f"{second}deny", {"reason": "not now"}, follow=True)
    assert "Next request" not in page_html(answer), "nothing else waits"


def test_a_proposal_says_what_else_it_gives_in_one_way(browse):
    text = text_of(browse("ada").get(with_effect(new_request(browse("out")))))
    assert "other permissions come with it" in text and "no side effects" not in text


def publish(browse, **changes):
    form = {"operation": ["read"], "description": "Salaries of all employees"} | changes
    return browse("ada").post("/publish/dataset:hr.salaries", form)


def test_a_person_without_access_finds_requests_and_knows_who_decides(browse, cast):
    out = browse("out")
    assert "Nothing is published yet" in text_of(out.get("/requests/catalogue"))
    assert "Choose from the catalogue" not in text_of(out.get("/requests/new"))
    assert publish(browse).status_code == 303
    page = out.get("/requests/catalogue")
    text = text_of(page)
    assert "dataset:hr.salaries" in page_html(page) and "Salaries of all employees" in text
    assert "Administrators and approvers of this console." in text
    for address in ("sales.", "namespace:"):
        assert address not in page_html(page), "an address that was not published"
    url = page.context["items"][0]["request_url"]
    form = out.get(url)
    assert "Salaries of all employees" in text_of(form)
    assert form.context["form"]["operation"].value() == ["read"]
    answer = out.post(
        "/requests/new", {"entity": "dataset:hr.salaries", "operation": "read", "reason": "audit"}
    )
    assert answer.status_code == 303 and AccessRequest.objects.get().created_by == "out"
    # the entry gives no access, not even to the page of the entity
    assert out.get("/entities/dataset:hr.salaries").status_code == 404
    assert "Nothing matches" in text_of(out.get("/requests/catalogue?q=orders"))
    assert "dataset:hr.salaries" in page_html(out.get("/requests/catalogue?q=EMPLOYEES"))
    assert publish(browse, verb="withdraw").status_code == 303
    assert "dataset:hr.salaries" not in page_html(out.get("/requests/catalogue"))


def test_the_form_answers_alike_about_addresses_that_exist_and_that_do_not(browse, cast):
    """An address that was not published tells neither who decides nor whether it exists."""
    publish(browse)
    out = browse("out")

    def answer(address: str) -> str:
        return text_of(out.get("/requests/new", {"entity": address})).replace(address, "ADDRESS")

    assert (
        answer("dataset:sales.orders") == answer("dataset:nowhere.nothing") != answer("dataset:hr.salaries")
    )


def test_a_bad_publication_keeps_what_was_typed(browse, cast):
    answer = publish(browse, operation=[])
    assert answer.status_code == 400 and "Salaries of all employees" in page_html(answer)
    assert "choose from 1 to" in text_of(answer).lower()


def test_approvers_see_earlier_decisions_about_the_same_address_and_nobody_elses(browse, cast):
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:grp")
    first = new_request(browse("out"))
    other = new_request(browse("dee"), entity="dataset:hr.salaries")
    for url in (first, other):
        assert browse("ada").post(f"{url}deny", {"reason": "not now"}).status_code == 303
    again = new_request(browse("out"))
    for name in ("ada", "grp"):
        text = text_of(browse(name).get(f"{again}?preview=yes"))
        assert "Decided before" in text and "denied" in text
        page = page_html(browse(name).get(f"{again}?preview=yes"))
        assert f'href="{first}"' in page and f'href="{other}"' not in page
        assert browse(name).get(first).status_code == 200
    assert "Decided before" not in text_of(browse("out").get(again))
    # a delegate for the address of a decision sees no decision about the access of a colleague
    assert "Decided before" not in text_of(
        browse("ada").get(f"{new_request(browse('dee'), entity='dataset:sales.customers')}?preview=yes")
    )
