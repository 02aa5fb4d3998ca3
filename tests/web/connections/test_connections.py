"""Add, test, change and delete connections on the pages, and sync them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from authzconsole.connections import services
from authzconsole.connections.jobs import request_due_syncs
from authzconsole.models import Connection
from entities.models import Entity
from grants.errors import SecondPersonRequired
from grants.jobs import run_job
from grants.models import Job, JournalLine, Plan, User
from tests.support import changes as plans
from tests.support.authors import COMMAND, author_named
from tests.support.cdap_server import TOKEN, Cdap, Namespace
from tests.support.changes import add_user, register_entity
from tests.support.pages import shown_effect_of_plan, text_of
from tests.support.ranger_server import PASSWORD, example
from tests.support.stand_in import running

pytestmark = pytest.mark.django_db
NEW = "/connections/new?type=cdap"
URL = "/connections/prod/"


@pytest.fixture
def cdap():
    with running(Cdap()) as server:
        server.namespaces["sales"] = Namespace(datasets=["orders"])
        yield server


@pytest.fixture
def form(cdap):
    """The fields of the form of a connection to CDAP."""
    return {
        "name": "prod",
        "url": cdap.url,
        "token": TOKEN,
        "option_verify": "no",
        "interval_hours": "24",
        "reason": "first platform",
    }


@pytest.fixture
def ada(browse, form):
    """A browser of an administrator who added the connection."""
    browser = browse("ada")
    assert browser.post(NEW, form).status_code == 303
    return browser


def run_newest_job() -> Job:
    job = Job.objects.latest("pk")
    run_job(job.pk)
    job.refresh_from_db()
    return job


def test_the_list_says_what_to_do_first(browse):
    assertContains(browse("aud").get("/connections/"), "No connections yet")
    assertContains(browse("ada").get("/connections/new"), "Hive metastore")


def test_the_list_has_the_last_result_of_each_connection(ada, monkeypatch):
    monkeypatch.setattr("authzconsole.connections.http.PAUSES_SECONDS", ())
    for url, state in ((Connection.objects.get().url, "done"), ("http://127.0.0.1:9", "failed")):
        Connection.objects.update(url=url)
        assert ada.post(f"{URL}run", {"verb": "test"}).status_code == 303
        assert run_newest_job().state == state
        assert f"test {state}" in text_of(ada.get("/connections/"))


def test_a_comparison_does_not_hide_a_sync_that_failed_before_it(ada):
    options = {"connection": Connection.objects.get().name}
    for job_type, state in (("sync", "failed"), ("compare", "done")):
        Job.objects.create(type=f"connection-{job_type}", options=options, state=state)
    assert "sync failed" in text_of(ada.get("/connections/"))
    Job.objects.create(type="connection-sync", options=options, state="done")
    Job.objects.create(type="connection-compare", options=options, state="done")
    assert "compare done" in text_of(ada.get("/connections/"))


def test_a_connection_is_added_with_its_token_encrypted(ada, browse):
    connection = Connection.objects.get()
    assert (connection.name, connection.type, connection.interval_hours) == ("prod", "cdap", 24)
    assert connection.options == {"verify": "no"}
    assert connection.secret and TOKEN not in connection.secret
    for url in ("/connections/", URL, f"{URL}edit"):
        assertNotContains(ada.get(url), TOKEN)
    assertContains(browse("aud").get(URL), "stored, encrypted")
    lines = JournalLine.objects.filter(action__startswith="connection-").order_by("revision")
    assert [(line.action, line.actor, line.reason) for line in lines] == [
        (action, "ada", "first platform")
        for action in ("connection-add", "connection-change", "connection-change")
    ]
    assert not any(TOKEN in line.detail for line in lines)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "two words", "cannot name a connection"),
        ("name", "", "cannot name a connection"),
        ("url", "ftp://platform", "is not the address of CDAP"),
        ("token", "two words", "no token has"),
        ("option_account", "partial", "is not a value of <code>account</code>"),
        ("interval_hours", "3", "is not one of"),
    ],
)
def test_a_wrong_value_is_named_and_changes_nothing(browse, form, field, value, message):
    answer = browse("ada").post(NEW, form | {field: value})
    assertContains(answer, message, status_code=400)
    assertNotContains(answer, TOKEN, status_code=400)
    assert not Connection.objects.exists()


def test_a_name_is_used_once(ada, form):
    assertContains(ada.post(NEW, form), "exists already", status_code=400)


def test_a_stored_token_stays_but_is_not_sent_to_another_address(ada, form):
    before = Connection.objects.get()
    same = form | {"token": "", "option_account": "limited", "applies_syncs": "yes"}
    assert ada.post(f"{URL}edit", same).status_code == 303
    after = Connection.objects.get()
    assert (after.secret, after.applies_syncs) == (before.secret, True)
    assert after.options == {"verify": "no", "account": "limited"}
    answer = ada.post(f"{URL}edit", form | {"token": "", "url": "https://elsewhere.example"}, follow=True)
    assertContains(answer, "Its token was removed")
    assert Connection.objects.get().secret == ""


def test_a_connection_shows_its_options_in_words_and_offers_only_what_can_help(ada, cdap):
    page = ada.get(URL)
    assertContains(page, "TLS certificate")
    # nothing can be smaller than before the first sync
    assertNotContains(page, "Accept a platform")
    Connection.objects.update(synced_at=timezone.now())
    assertContains(ada.get(URL), "Accept a platform")


def test_a_stored_token_is_removed_on_request(ada, form):
    ada.post(f"{URL}edit", form | {"token": "", "removes_token": "yes"})
    assert Connection.objects.get().secret == ""


def test_four_eyes_does_not_let_a_schedule_change_grants(ada, form, settings):
    settings.FOUR_EYES = True
    answer = ada.post(f"{URL}edit", form | {"applies_syncs": "yes"})
    assertContains(answer, "FOUR_EYES is on", status_code=400)


def test_with_four_eyes_who_configures_a_connection_does_not_apply_what_its_schedule_finds(
    browse, settings, monkeypatch
):
    """The schedule makes the plan, but this person chose the server that gives the grants."""
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS = True, 0
    add_user("eve", role="administrator")
    User.objects.filter(username="eve").update(is_active=True)
    with running(example()) as ranger:
        fields = {"name": "policies", "url": ranger.url, "token": PASSWORD, "interval_hours": "1"}
        fields |= {"option_service": "cdapdev", "option_user": "console", "reason": "mine"}
        assert browse("ada").post("/connections/new?type=ranger", fields).status_code == 303
        request_due_syncs()
        for job in Job.objects.filter(type="connection-sync"):
            run_job(job.pk)
    plan = Plan.objects.get(origin="sync")
    assert plan.made_by == "connection"
    with pytest.raises(SecondPersonRequired, match="another person must apply"):
        plans.apply_plan(plan, author=author_named("ada"))
    assert plans.apply_plan(plan, author=author_named("eve")).state == "applied"


def test_an_interval_makes_nobody_a_maker_and_another_address_replaces_the_makers(ada, form):
    add_user("eve", role="administrator")
    User.objects.filter(username="eve").update(is_active=True)
    ids, form = dict(User.objects.values_list("username", "pk")), form | {"token": ""}
    assert ada.post(f"{URL}edit", form | {"url": "http://127.0.0.1:9"}).status_code == 303
    assert Connection.objects.get().maker_ids == [ids["ada"]]
    eve, form = Client(), form | {"url": "http://127.0.0.1:9"}
    eve.force_login(User.objects.get(username="eve"))
    assert eve.post(f"{URL}edit", form | {"interval_hours": "24"}).status_code == 303
    assert Connection.objects.get().maker_ids == [ids["ada"]]
    assert eve.post(f"{URL}edit", form | {"url": "http://127.0.0.1:10"}).status_code == 303
    assert Connection.objects.get().maker_ids == [ids["eve"]]


def test_a_test_shows_what_the_account_can_read(ada, cdap):
    cdap.token = TOKEN
    assert ada.post(f"{URL}run", {"verb": "test"}).status_code == 303
    assertContains(ada.get(URL), "waiting")
    assert run_newest_job().state == "done"
    answer = ada.get(URL)
    assertContains(answer, "version 6.11.1")
    assertContains(answer, "can be read, such as <code>namespace:")
    assertContains(answer, "the platform shows none")


def test_a_test_says_why_it_failed(ada):
    connection = Connection.objects.get()
    Connection.objects.update(url="http://127.0.0.1:9")
    ada.post(f"{URL}run", {"verb": "test"})
    assert run_newest_job().state == "failed"
    answer = ada.get(URL)
    assertContains(answer, "does not answer")
    assert connection.secret


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254",
        "http://[fe80::1]:80",
        "http://0.0.0.0",
        "http://[::ffff:169.254.169.254]",
        "http://[64:ff9b::a9fe:a9fe]",
        "http://[2002:a9fe:a9fe::1]",
        "http://[::ffff:0.0.0.0]:8001",
        "http://100.100.100.200",
        "http://192.0.0.192",
        "http://168.63.129.16",
        "http://[fd20:ce::254]",
    ],
)
def test_no_connection_reaches_the_metadata_of_a_cloud(ada, url):
    connection = Connection.objects.get()
    connection.url = url
    with pytest.raises(services.ConnectionFault, match="is not the address of a platform"):
        services.open_platform(connection)


def test_one_test_runs_at_a_time(ada):
    for _ in range(2):
        ada.post(f"{URL}run", {"verb": "test"})
    assert Job.objects.filter(type="connection-test").count() == 1


def test_a_connection_is_deleted_with_its_jobs(ada):
    ada.post(f"{URL}run", {"verb": "test"})
    assert ada.post(f"{URL}delete", {"reason": "gone"}).status_code == 303
    assert not Connection.objects.exists() and not Job.objects.filter(type="connection-test").exists()
    assert JournalLine.objects.latest("revision").action == "connection-delete"


@pytest.mark.parametrize("path", ["edit", "delete", "run"])
def test_only_managers_of_settings_change_a_connection(ada, browse, path):
    for name, status in (("aud", 403), ("ned", 404)):
        assert browse(name).post(f"{URL}{path}", {"verb": "test"}).status_code == status
    assert browse("ned").get(URL).status_code == 404


def test_the_form_of_ranger_asks_for_the_service_and_a_password(browse):
    browser, url = browse("ada"), "/connections/new?type=ranger"
    response = browser.get(url)
    assertContains(response, "Password")
    assertContains(response, "The name of the service of the type cdap in Ranger.")
    fields = {"name": "policies", "url": "http://127.0.0.1:1", "interval_hours": "0", "reason": "first"}
    assertContains(
        browser.post(url, fields), "option <code>service</code> of ranger is missing", status_code=400
    )
    fields |= {"option_service": "cdapdev", "option_user": "console", "token": "two words are allowed"}
    assert browser.post(url, fields).status_code == 303
    assertContains(browser.get("/connections/policies/"), "stored, encrypted")


def sync(browser, **fields) -> Job:
    """Sync on the page, and return the job."""
    assert browser.post(f"{URL}run", {"verb": "sync"} | fields).status_code == 303
    return run_newest_job()


def apply_plan(browser) -> None:
    """Apply the newest plan on its page, as it is shown."""
    plan = Plan.objects.latest("pk")
    shown = shown_effect_of_plan(browser, plan) | {"beyond": "yes", "strand": "yes"}
    answer = browser.post(f"/plans/{plan.pk}/apply", {"reason": "take over"} | shown)
    assert answer.status_code == 303, answer.content


def live_entities() -> set[str]:
    return {str(row) for row in Entity.objects.filter(state="live", key__startswith="pay")}


def test_a_sync_makes_a_plan_that_shows_its_effect_and_is_applied(ada, cdap):
    cdap.namespaces["pay"] = Namespace(datasets=["orders"], applications={"web": ["1"]})
    job = sync(ada)
    assert job.state == "done", job.error
    assert live_entities() == set()
    plan = Plan.objects.latest("pk")
    assert (plan.origin, plan.title, plan.made_by) == ("sync", "Sync of prod", "ada")
    assertContains(ada.get(URL), f'href="/plans/{plan.pk}/"')
    page = ada.html(f"/plans/{plan.pk}/")
    # the entities that it registers are no change by a principal, and not in place yet
    assert "The items of this plan change no grant or membership: they are about entities" in page
    assert "to make live" in page and "dataset:pay.orders" in page and "/connections/prod/" in page
    apply_plan(ada)
    assert live_entities() == {"namespace:pay", "application:pay.web", "dataset:pay.orders"}
    line = JournalLine.objects.get(action="register", entity="dataset:pay.orders")
    assert (line.actor, line.reason) == ("ada", "take over")
    assertContains(ada.get(f"/plans/{plan.pk}/"), "made live")
    # what the platform drops is deleted only because the plan found it
    cdap.namespaces["pay"].datasets = []
    assert sync(ada).summary["entities"] == {"new": 0, "live": 0, "deleted": 1}
    assertContains(ada.get(f"/plans/{Plan.objects.latest('pk').pk}/"), "to delete")
    apply_plan(ada)
    assert live_entities() == {"namespace:pay", "application:pay.web"}
    job = sync(ada)
    assert (job.summary["plan"], Connection.objects.get().plan) == (None, None)
    assertContains(ada.get(URL), "nothing to change")


def test_a_namespace_that_was_created_again_is_deleted_and_recreated_by_the_plan(ada, cdap):
    cdap.namespaces["pay"] = Namespace(datasets=["orders"])
    sync(ada)
    apply_plan(ada)
    cdap.namespaces["pay"].generation += 1
    assert sync(ada).summary["entities"] == {"new": 0, "live": 2, "deleted": 1}
    # a new sync replaces the plan, and finds the same
    assert sync(ada).summary["entities"] == {"new": 0, "live": 2, "deleted": 1}
    assert [plan.state for plan in Plan.objects.filter(origin="sync").order_by("pk")][1:] == [
        "discarded",
        "proposed",
    ]
    apply_plan(ada)
    assert live_entities() == {"namespace:pay", "dataset:pay.orders"}
    assert sync(ada).summary["plan"] is None


def test_a_platform_that_lost_most_of_its_entities_needs_a_confirmation(ada, cdap):
    cdap.namespaces["pay"] = Namespace(datasets=[f"d{number}" for number in range(30)])
    sync(ada)
    apply_plan(ada)
    cdap.namespaces["pay"].datasets = ["d1"]
    job = sync(ada)
    assert job.state == "failed" and not Plan.objects.filter(state="proposed", origin="sync").exists()
    assertContains(ada.get(URL), "confirm that they were deleted")
    assert sync(ada, accepts_shrunken="yes").summary["entities"]["deleted"] == 29


def test_the_first_of_what_the_console_cannot_express_is_on_the_page(ada, cdap, monkeypatch):
    monkeypatch.setattr("authzconsole.connections.jobs.MAX_ROWS", 1)
    cdap.namespaces["pay"] = Namespace(datasets=["two words", "two words more"])
    assert sync(ada).summary["unsupported_count"] == 2
    assertContains(
        ada.get(URL),
        "These are the first of 2. <code>manage.py connection sync prod --dry-run</code> lists all.",
    )
    assertContains(ada.get(URL), "Not taken over")
    assertContains(ada.get(URL), "dataset:pay.two words")


def test_a_plan_of_a_sync_is_stale_after_a_change_and_is_not_renewed(ada, cdap):
    cdap.namespaces["pay"] = Namespace(datasets=["orders"])
    sync(ada)
    plan = Plan.objects.latest("pk")
    register_entity("namespace:pay")
    assertContains(ada.get(f"/plans/{plan.pk}/"), "This plan is stale")
    assertContains(ada.get(f"/plans/{plan.pk}/"), "Sync again.")
    assertContains(ada.post(f"/plans/{plan.pk}/renew"), "sync again", status_code=400)
    sync(ada)
    apply_plan(ada)
    assert live_entities() == {"namespace:pay", "dataset:pay.orders"}
    assertContains(
        ada.post(f"/plans/{Plan.objects.latest('pk').pk}/undo"), "change the platform", status_code=400
    )


@pytest.mark.parametrize("applies", [False, True])
def test_the_schedule_syncs_once_in_each_interval(ada, cdap, applies):
    Connection.objects.update(applies_syncs=applies)
    cdap.namespaces["pay"] = Namespace(datasets=["orders"])
    request_due_syncs()
    request_due_syncs()
    job = run_newest_job()
    assert job.is_scheduled and job.state == "done", job.error
    assert live_entities() == ({"namespace:pay", "dataset:pay.orders"} if applies else set())
    assert Plan.objects.filter(origin="sync").count() == (not applies)
    request_due_syncs()
    Job.objects.filter(pk=job.pk).update(requested_at=timezone.now() - timedelta(hours=25))
    request_due_syncs()
    assert Job.objects.filter(type="connection-sync").count() == 2


@pytest.mark.parametrize("path", [URL, f"{URL}drift", "/connections/", "/findings/"])
def test_the_number_of_queries_does_not_grow(ada, django_assert_max_num_queries, path):
    counts = []
    Connection.objects.update(type="hive")
    for count in (1, 30):
        for number in range(count):
            Connection.objects.create(
                name=f"c{count}x{number}", type="hive", url="thrift://metastore.example"
            )
            rows = [["user:dee", f"dataset:sales.d{n}", "READ", True, False] for n in range(count)]
            for name in ("prod", f"c{count}x{number}"):
                Job.objects.create(
                    type="connection-compare",
                    state="done",
                    options={"connection": name},
                    summary={"count": count, "rows": rows},
                )
        ada.get(path)
        with django_assert_max_num_queries(60) as captured:
            assert ada.get(path).status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_the_drift_of_ranger_names_other_periods_and_the_policies_to_write(browse, monkeypatch):
    monkeypatch.setenv("CONNECTION_POLICIES_PASSWORD", PASSWORD)
    with running(example()) as ranger:
        options = {"service": "cdapdev", "user": "console"}
        connection = services.add_connection(
            author=COMMAND, type_name="ranger", name="policies", url=ranger.url, options=options
        )
        services.sync(connection, services.computed_sync(connection), author=COMMAND)
        ranger.named("bookings reports")["validitySchedules"] = [
            {"startTime": "", "endTime": "2099/01/01 00:00:00"}
        ]
        browser = browse("ada")
        assert browser.post("/connections/policies/run", {"verb": "compare"}).status_code == 303
        assert run_newest_job().state == "done"
    page = browser.get("/connections/policies/drift")
    assertContains(page, "grants in another period")
    assertContains(page, "update 357 bookings reports, version 1")
