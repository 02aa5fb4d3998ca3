"""The search page, and suggestions for form fields."""

import pytest

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from authzconsole.web.explorer.search import action_hits, console_hits
from authzconsole.web.page_registry import ACTIONS, PAGES
from entities.address import parse_address
from entities.services import ensure_entities
from grants.models import Plan, User
from grants.plans.sources.copy import copy_plan
from grants.roles.capabilities import Capability
from tests.support.cast import SETUP, create_role_accounts
from tests.support.pages import page_html


def rows_of(response) -> list[str]:
    return [str(row) for row in response.context["rows"]]


@pytest.mark.parametrize("max_candidates", [0, 1_000])
def test_a_search_hides_invisible_entities_for_any_number_of_matches(max_candidates, browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", max_candidates)
    results = {name: rows_of(browse(name).get("/search?q=sales")) for name in ("dee", "out")}
    assert results["out"] == [] and results["dee"] == [
        "namespace:sales",
        "dataset:sales.legacy",
        "dataset:sales.orders",
    ]


def test_exact_names_rank_first_then_prefixes_then_substrings(browse):
    ensure_entities(
        states={
            parse_address(address): "live"
            for address in (
                "application:hr.orders",
                "dataset:hr.orders_old",
                "dataset:hr.all_orders",
                "artifact:orders.a",
                "program:hr.x.workflow.orders",
            )
        }
    )
    assert rows_of(browse("ada").get("/search?q=Orders")) == [
        "namespace:orders",
        "application:hr.orders",
        "program:hr.x.workflow.orders",
        "dataset:sales.orders",
        "dataset:hr.orders_old",
        "dataset:hr.all_orders",
        "artifact:orders.a",
    ]


def test_an_exact_match_is_found_among_too_many_matches(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 1)
    ensure_entities(states={parse_address(f"dataset:aaa.orders{number}"): "live" for number in range(9)})
    for text in ("orders", "sales.orders", "dataset:sales.orders"):
        response = browse("ada").get(f"/search?q={text}")
        assert rows_of(response)[0] == "dataset:sales.orders", text
    assert not browse("ada").get("/search?q=orders").context["result"].is_all
    assert "the best of the checked matches" in page_html(browse("ada").get("/search?q=orders"))


def test_an_account_with_many_grants_learns_that_no_checked_match_is_visible(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 0)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", -1)
    assert "you cannot see any of those that it checked" in page_html(browse("dee").get("/search?q=salar"))


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("or", ["dataset:sales.orders"]),
        ("OR", ["dataset:sales.orders"]),
        ("rd", []),
        ("-", []),
        ("dataset:sales.or", ["dataset:sales.orders"]),
    ],
)
def test_fewer_than_three_letters_match_only_the_start_of_names(text, results, browse):
    response = browse("ada").get(f"/search?q={text}")
    assert rows_of(response) == results
    assert ("fewer than three letters" in page_html(response)) == (results == [])


def test_a_search_field_lists_the_best_matches_as_options(browse, htmx):
    listed = page_html(browse("ada").get("/search?q=sales", headers=htmx("search-suggestions")))
    assert "<html" not in listed and listed.count('role="option"') == 9
    namespace, application, all_results = map(
        listed.index, ("/entities/namespace:sales", "/entities/application:sales.", "All results for")
    )
    assert namespace < application < all_results
    suggestions = page_html(browse("dee").get("/search?entity=legacy", headers=htmx("entity-suggestions")))
    assert (
        'data-value="dataset:sales.legacy"' in suggestions
        and "deleted" in suggestions
        and "All results" not in suggestions
    )
    assert "Nothing found" in page_html(
        browse("out").get("/search?q=sales", headers=htmx("search-suggestions"))
    )
    # an opened palette lists what it can start
    listed = page_html(browse("ada").get("/search", headers=htmx("search-suggestions")))
    assert listed.count('role="option"') == len(ACTIONS) == listed.count("data-fill=")
    assert "<html" in page_html(browse("ada").get("/search?q=sales", headers=htmx("elsewhere")))


def test_a_field_that_takes_patterns_does_not_say_that_a_pattern_was_not_found(browse, htmx):
    field, client = htmx("grant-target-entity-suggestions"), browse("ada")
    assert "every address that it matches" in client.html("/search?entity=dataset:sales.*", headers=field)
    assert "Nothing found" in client.html("/search?entity=dataset:nothing", headers=field)
    assert "Nothing found" in client.html("/search?entity=dataset:sales.*", headers=htmx("a-suggestions"))


@pytest.mark.parametrize("max_candidates", [0, 1_000])
def test_a_field_for_one_kind_suggests_only_that_kind(max_candidates, browse, htmx, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", max_candidates)
    for text in ("sales", "artifact:sales.", "sales.etl-1.0"):
        response = browse("ada").get(f"/search?artifact={text}", headers=htmx("ask-artifact-suggestions"))
        assert set(rows_of(response)) <= {"artifact:sales.etl-1.0"} and (
            rows_of(response) or max_candidates == 0
        ), text
    assert rows_of(browse("ada").get("/search?owner=sales", headers=htmx("ask-owner-suggestions"))) == []


def test_an_empty_or_malformed_search_does_not_fail(browse):
    for text in ("", "%00", "%FF", "dataset:", "x" * 5_000, "%25", "_", "..", "%F0%9F%9A%A2"):
        assert browse("ada").get(f"/search?q={text}").status_code == 200


def test_principals_are_suggested_by_type_and_part_of_the_name(browse):
    client = browse("ada")

    def options(query):
        return [option["value"] for option in client.get(f"/suggest/principals?{query}").context["options"]]

    assert options("principal=de") == ["user:dee"]
    assert options("subject=group:op") == ["group:operators"]
    assert "group:operators" in options("principal=o") and "user:out" in options("principal=o")
    assert options("deleter=ne") == ["ned"]
    assert options("like=ne") == ["ned"] and options("stranded_to=user:dee, ne") == ["user:dee, user:ned"]
    assert (
        options("entity-dataset:sales.orders=ne") == ["user:ned"]
        and options("inside-namespace:sales=a,b") == []
    )
    assert options("principal=%25") == [] and options("principal=%00zzz") == []


def test_groups_are_suggested_only_to_accounts_that_may_list_them(cast, browse):
    cast |= create_role_accounts()
    suggested = {
        name: [
            option["value"]
            for option in browse(name).get("/suggest/principals?principal=o").context["options"]
        ]
        for name in ("ada", "sec")
    }
    assert "group:operators" in suggested["ada"]
    assert suggested["sec"] == [value for value in suggested["ada"] if value.startswith("user:")]


def hits_of(response) -> dict[str, list[str]]:
    return {group.name: [hit.title for hit in group.hits] for group in response.context["groups"]}


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("dee", {"people": ["dee"]}),
        ("user:DEE", {"people": ["dee"]}),
        ("user:oper", {}),
        ("Delilah", {"people": ["dee"]}),
        ("oper", {"groups": ["operators"]}),
        ("group:oper", {"groups": ["operators"]}),
        ("quarterly", {"plans": ["Quarterly cleanup"]}),
        ("plan {plan}", {"plans": ["Quarterly cleanup"]}),
        ("ghost", {"reports": ["Ghost grants"]}),
        ("verify j", {"pages": ["Verify journal"]}),
        ("bundle", {"pages": ["Evidence"]}),
        ("expir", {"pages": ["Limited access"]}),
        ("emergency", {"pages": ["Break-glass access"]}),
        ("dataset:sales.or", {}),
        ("dataset:sales.*", {"patterns": ["dataset:sales.*"]}),
        ("DATASET:*", {"patterns": ["dataset:*"]}),
        ("dataset:a.**?", {"patterns": ["dataset:a.**?"]}),
        ("dataset:sa les.*", {}),
        ("d", {}),
    ],
)
def test_administrators_and_auditors_also_find_people_groups_plans_reports_and_pages(
    text, hits, browse, cast
):
    User.objects.filter(username="dee").update(first_name="Delilah")
    plan = Plan.objects.create(
        title="Quarterly cleanup", origin="file", base_revision=0, made_by="ada", effect={}
    )
    AnalysisRun.objects.create(type="ghost-grants", options={}, state="done", requested_by=cast["ada"])
    client = browse("aud")
    assert hits_of(client.get("/search", {"q": text.format(plan=plan.pk)})) == hits


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("unused", "Unused access"),
        ("risk", "Blast radius"),
        ("broadest", "Blast radius"),
        ("broadest access", "Blast radius"),
        ("duplicate", "Redundant access"),
        ("roles", "Role mining"),
        ("who gained", "Drift"),
        ("no owner", "Stranded entities"),
        ("colleagues", "Outliers"),
    ],
)
def test_reports_are_found_by_the_words_of_a_question(text, title, browse, cast):
    response = browse("aud").get("/search", {"q": text})
    assert title in hits_of(response)["reports"]
    hit = next(hit for group in response.context["groups"] for hit in group.hits if hit.title == title)
    assert (hit.url, hit.note) == ("/analyses/", "not analyzed yet")
    name = next(analysis.name for analysis in ANALYSES.values() if analysis.title == title)
    run = AnalysisRun.objects.create(type=name, options={}, state="done", requested_by=cast["ada"])
    response = browse("aud").get("/search", {"q": text})
    urls = {hit.title: hit.url for group in response.context["groups"] for hit in group.hits}
    assert urls[title] == f"/analyses/{run.pk}/"
    assert "reports" not in hits_of(browse("dee").get("/search", {"q": text}))


def test_every_hit_leads_to_a_page_that_the_account_can_open(browse, cast):
    copy_plan.create(author=SETUP, source="user:ned", target="user:out")
    for name in ("ada", "aud", "dee"):
        client, urls = browse(name), set()
        for page in PAGES:
            urls |= {hit.url for group in console_hits(cast[name], page.title, 10) for hit in group.hits}
        for text in ("ada", "dee", "operators", "copy", "unused", "dataset:a.**?"):
            urls |= {hit.url for group in console_hits(cast[name], text, 10) for hit in group.hits}
        for action in ACTIONS:
            for target in ("", "dee", "operators", "orders"):
                urls |= {
                    hit.url for hit in action_hits(cast[name], f"{action.verbs[0]} {target}".strip(), 3).hits
                }
        assert len(urls) > 4 and all(client.get(url).status_code == 200 for url in urls), name


def test_an_ordinary_account_finds_no_names_plans_or_reports(browse, cast):
    Plan.objects.create(title="dee leaves", origin="file", base_revision=0, made_by="ada", effect={})
    AnalysisRun.objects.create(type="ghost-grants", options={}, state="done", requested_by=cast["ada"])
    client = browse("dee")
    for text in ("dee", "ned", "oper", "ghost", "import", "journal", "user:ned", "bulk", "dataset:*"):
        assert set(hits_of(client.get(f"/search?q={text}"))) <= {"pages"}, text
    assert hits_of(client.get("/search?q=sess")) == {"pages": ["Sessions"]}
    assert hits_of(client.get("/search?q=journal")) == hits_of(client.get("/search?q=bulk")) == {}


def test_the_suggestions_have_a_group_for_each_type(browse, htmx):
    text = page_html(browse("ada").get("/search?q=oper", headers=htmx("search-suggestions")))
    assert (
        'aria-labelledby="search-suggestions-groups"' in text
        and 'id="search-suggestions-groups">Groups<' in text
    )
    assert '/people/group:operators"' in text and "All results for" in text and "Nothing found" not in text
    # fields with addresses suggest only addresses
    assert "operators" not in page_html(
        browse("ada").get("/search?entity=oper", headers=htmx("entity-suggestions"))
    )


def actions_of(response) -> dict[str, str]:
    """Return the URL by the title of each action found."""
    actions = response.context["actions"]
    return {hit.title: hit.url for hit in actions.hits} if actions else {}


def test_a_verb_and_a_target_start_an_action(browse):
    client = browse("ada")

    def found(text):
        return actions_of(client.get("/search", {"q": text}))

    assert found("off-board de") == {"Off-board dee": "/people/leaving/user:dee"}
    assert found("Grant sales.orders") == {"Grant on dataset:sales.orders": "/grant/dataset:sales.orders"}
    assert found("members oper") == {"Change members of group:operators": "/people/members/group:operators"}
    assert found("ask user:dee") == {"Ask about dee": "/ask?subject=user:dee"}
    assert found("evidence sales.orders") == {
        "Create evidence about dataset:sales.orders": "/journal/evidence?entity=dataset:sales.orders"
    }
    assert found("off") == found("off-board") == {"Off-board …": "/people/"}
    assert found("grant dataset:sales.*") == {"Grant on dataset:sales.*": "/grant/dataset:sales.%2A"}
    assert found("grant") == {"Grant on …": "/grant"}
    assert found("off-board nobody") == found("unknown dee") == {}


def test_an_action_never_reveals_a_hidden_address_or_a_name(browse):
    for name, text in (
        ("dee", "request salaries"),
        ("dee", "ask customers"),
        ("out", "request orders"),
        ("dee", "ask user:ned"),
        ("dee", "off-board ned"),
        ("dee", "grant orders"),
        ("aud", "grant dataset:sales.*"),
        ("aud", "members operators"),
        ("dee", "evidence orders"),
    ):
        response = browse(name).get("/search", {"q": text})
        assert actions_of(response) == {}, (name, text)
    assert actions_of(browse("dee").get("/search?q=request orders")) == {
        "Request access to dataset:sales.orders": "/requests/new?entity=dataset:sales.orders"
    }


def test_delegates_start_a_grant_only_where_they_may_grant(browse, settings):
    settings.DELEGATION = True
    assert list(actions_of(browse("ned").get("/search?q=grant orders"))) == ["Grant on dataset:sales.orders"]
    assert actions_of(browse("dee").get("/search?q=grant orders")) == {}
    settings.DELEGATION = False
    assert actions_of(browse("ned").get("/search?q=grant orders")) == {}


def test_the_number_of_queries_of_an_action_is_bounded(browse, htmx, django_assert_max_num_queries):
    ensure_entities(states={parse_address(f"dataset:sales.orders{number}"): "live" for number in range(60)})
    for name in ("ada", "dee"):
        client = browse(name)
        for text in ("grant orders", "ask orders", "off-board dee", ""):
            with django_assert_max_num_queries(40):
                client.get("/search", {"q": text}, headers=htmx("search-suggestions"))


def test_a_page_is_in_the_registry_once_and_not_in_the_navigation_of_those_who_find_it_elsewhere(cast):
    names = [page.url_name for page in PAGES]
    assert len(names) == len(set(names))
    events = next(page for page in PAGES if page.url_name == "journal-security-events")
    auditor = cast["aud"]
    assert events.is_for(auditor) and not events.is_in_navigation_of(auditor)
    security = create_role_accounts()["sec"]
    assert events.is_in_navigation_of(security) is not security.can(Capability.READ_JOURNAL)


@pytest.mark.parametrize("name", ["within", "entity", "any_name"])
def test_every_address_field_gets_suggestions_and_no_page(browse, htmx, name):
    url, headers = f"/search?{name}=legacy", htmx(f"some-form-{name}-suggestions")
    listed = page_html(browse("ada").get(url, headers=headers))
    assert 'data-value="dataset:sales.legacy"' in listed and "<html" not in listed and "<nav" not in listed
