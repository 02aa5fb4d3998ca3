"""Take over the entities of CDAP from a stand-in with the shapes of its versions, and with faults."""

import gzip
import ipaddress
import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from authzconsole.connections import cdap as cdap_connection
from authzconsole.connections import http, peers, services
from authzconsole.models import Connection
from entities.models import Entity
from grants.models import JournalLine
from tests.support.authors import all_grants
from tests.support.cdap_server import (
    CREATED,
    TOKEN,
    VERSIONS,
    Cdap,
    Namespace,
)
from tests.support.changes import add_grant, add_user, register_entity
from tests.support.stand_in import Answer, certificate, running

pytestmark = pytest.mark.django_db
SALES = "namespaces/sales"
HTML = Answer(200, "<!DOCTYPE html><title>Welcome</title>", {"Content-Type": "text/html"})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(http, "PAUSES_SECONDS", (0.01, 0.01))


@pytest.fixture
def cdap():
    """CDAP 6.11 with two namespaces."""
    with running(Cdap()) as server:
        server.namespaces |= {"sales": sales(), "hr": Namespace(datasets=["salaries"])}
        yield server


@pytest.fixture
def connected(cdap):
    output("add", "cdap", "prod", "--url", cdap.url)
    return cdap


def sales() -> Namespace:
    return Namespace(
        principal="etl/host.example.com@EXAMPLE.COM",
        applications={"orders": ["0e1c8a2e", "1f2d9b3f"], "web": ["-SNAPSHOT"]},
        programs=[
            ("workflows", "orders", "daily"),
            ("spark", "orders", "phase-1"),
            ("services", "web", "api"),
            ("mapreduce", "web", "count"),
            ("workers", "web", "poll"),
        ],
        artifacts=[("etl.tools", "1.0.0"), ("etl.tools", "1.1.0")],
        datasets=["orders", "orders.by.day", "system.store"],
        modules=["orderModule"],
        types=["co.example.OrderTable"],
        secure_keys=["db-password"],
    )


def output(*arguments: str) -> list[dict]:
    """Run the command, and return the objects that it prints."""
    stdout = StringIO()
    call_command("connection", *arguments, stdout=stdout, stderr=StringIO())
    return [json.loads(line) for line in stdout.getvalue().splitlines() if line.startswith("{")]


def live() -> set[str]:
    return {str(entity) for entity in Entity.objects.filter(state="live").exclude(kind="instance")}


SALES_ENTITIES = {
    "namespace:sales",
    "application:sales.orders",
    "application:sales.web",
    "program:sales.orders.workflow.daily",
    "program:sales.orders.spark.phase-1",
    "program:sales.web.service.api",
    "program:sales.web.mapreduce.count",
    "program:sales.web.worker.poll",
    "artifact:sales.etl.tools",
    "dataset:sales.orders",
    "dataset:sales.orders.by.day",
    "dataset_module:sales.orderModule",
    "dataset_type:sales.co.example.OrderTable",
    "securekey:sales.db-password",
    "kerberosprincipal:etl/host.example.com@EXAMPLE.COM",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sync_takes_over_what_each_version_lists(version):
    with running(Cdap(version)) as server:
        server.namespaces["sales"] = sales()
        server.namespaces["sales"].streams = ["clicks"]
        server.namespaces["sales"].profiles = ["small"]
        server.system_services = ["appfabric", "dataset.executor"]
        server.namespaces["sales"].programs.append(("flows", "orders", "ingest"))
        output("add", "cdap", "prod", "--url", server.url)
        [result] = output("sync", "prod")
    old = {"stream:sales.clicks", "program:sales.orders.flow.ingest"}
    new = {"profile:sales.small", "system_service:appfabric", "system_service:dataset.executor"}
    expected = SALES_ENTITIES | {"namespace:default"} | (old if server.is_old else new)
    assert live() == expected and result["unsupported"] == []
    assert result["entities"] == {"new": len(expected), "live": 0, "deleted": 0}
    paths = {path for path, _ in server.requests}
    assert {f"{SALES}/streams", f"{SALES}/flows"} & paths == (
        {f"{SALES}/streams", f"{SALES}/flows"} if server.is_old else set()
    )
    assert not any(path.startswith("namespaces/system") for path in paths)


def test_without_a_version_the_lists_of_cdap_6_are_read(connected):
    connected.faults["version"] = Answer(404, "Not found")
    output("sync", "prod")
    assert SALES_ENTITIES <= live()
    connected.faults["namespaces"] = Answer(404, "Not found")
    with pytest.raises(CommandError, match="namespaces does not exist: check the address and its prefix"):
        output("sync", "prod")


def test_without_a_version_the_streams_and_flows_of_earlier_syncs_stay():
    with running(Cdap(VERSIONS[0])) as server:
        server.namespaces["sales"] = sales()
        server.namespaces["sales"].streams = ["clicks"]
        server.namespaces["sales"].programs.append(("flows", "orders", "ingest"))
        output("add", "cdap", "prod", "--url", server.url)
        output("sync", "prod")
        server.faults["version"] = Answer(404, "Not found")
        output("sync", "prod")
    assert {"stream:sales.clicks", "program:sales.orders.flow.ingest"} <= live()


def test_a_second_sync_without_changes_changes_nothing(connected):
    output("sync", "prod")
    before = live()
    assert output("sync", "prod", "--dry-run") == output("sync", "prod")
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 0, "deleted": 0}
    assert live() == before


def test_all_pages_of_applications_and_all_their_versions_are_read(connected, monkeypatch):
    monkeypatch.setattr(cdap_connection, "ITEMS_PER_PAGE", 7)
    applications = {f"app-{number}": ["1", "2", "3"] for number in range(40)}
    connected.namespaces["sales"] = Namespace(applications=applications)
    output("sync", "prod")
    assert {f"application:sales.{name}" for name in applications} <= live()
    assert len([path for path, _ in connected.requests if path == f"{SALES}/apps"]) == 18


def test_pages_that_repeat_end(connected):
    page = json.dumps({"applications": [{"name": "orders"}], "nextPageToken": "orders.1"})
    connected.faults[f"{SALES}/apps"] = Answer(200, page)
    with pytest.raises(CommandError, match="repeats its pages"):
        output("sync", "prod")


def test_grants_of_the_console_stay(connected):
    register_entity("namespace:sales")
    add_user("alice")
    add_grant("user:alice", "namespace:sales", "READ")
    assert output("sync", "prod")[0]["grants"] == {"granted": 0, "revoked": 0}
    assert all_grants() == {("user:alice", "namespace:sales", "READ")}


def test_what_cdap_no_longer_lists_is_deleted_and_keeps_its_grants(connected):
    output("sync", "prod")
    add_user("alice")
    add_grant("user:alice", "dataset:sales.orders", "READ")
    connected.namespaces["sales"].datasets.remove("orders")
    connected.namespaces["sales"].applications.pop("web")
    connected.namespaces["sales"].programs = connected.namespaces["sales"].programs[:2]
    del connected.namespaces["hr"]
    # the application with its programs, the dataset, and the namespace with its content
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 0, "deleted": 3}
    assert live().isdisjoint(
        {
            "application:sales.web",
            "program:sales.web.service.api",
            "dataset:sales.orders",
            "dataset:hr.salaries",
        }
    )
    assert all_grants() == {("user:alice", "dataset:sales.orders", "READ")}


def test_a_namespace_that_was_created_again_between_two_syncs_is_deleted_and_recreated(connected):
    connected.namespaces["sales"].datasets += [f"d{number}" for number in range(20)]
    connected.namespaces["hr"].datasets += [f"d{number}" for number in range(40)]
    output("sync", "prod")
    register_entity("stream:sales.clicks")
    before = JournalLine.objects.latest("pk").pk
    connected.namespaces["sales"] = Namespace(
        generation=1_700_000_000_000, datasets=["orders", "returns"], principal=""
    )
    assert output("sync", "prod")[0]["entities"] == {"new": 1, "live": 2, "deleted": 1}
    assert {entity for entity in live() if ":sales" in entity} == {
        "namespace:sales",
        "dataset:sales.orders",
        "dataset:sales.returns",
    }
    lines = JournalLine.objects.filter(pk__gt=before).values_list("action", "entity")
    assert ("delete", "namespace:sales") in lines and ("recreate", "namespace:sales") in lines
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 0, "deleted": 0}


def test_a_namespace_that_came_back_after_it_was_found_deleted_is_recreated_once(connected):
    output("sync", "prod")
    namespace = connected.namespaces.pop("hr")
    output("sync", "prod")
    namespace.generation += 1
    connected.namespaces["hr"] = namespace
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 2, "deleted": 0}
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 0, "deleted": 0}


def test_what_was_created_again_between_two_syncs_is_deleted_and_recreated(connected):
    space = connected.namespaces["sales"]
    # more than a page of the newest
    space.datasets += [f"d{number}" for number in range(50)]
    output("sync", "prod")
    before = JournalLine.objects.latest("pk").pk
    again = [
        "application:orders",
        "dataset:orders",
        "securekey:db-password",
        *(f"dataset:d{n}" for n in range(45)),
    ]
    space.created = {tuple(one.split(":")): CREATED + 1 + number for number, one in enumerate(again)}
    space.datasets.append("returns")
    space.created["dataset", "returns"] = CREATED + 100
    # the application has two programs, which are recreated with it
    assert output("sync", "prod")[0]["entities"] == {"new": 1, "live": 50, "deleted": 48}
    lines = JournalLine.objects.filter(pk__gt=before, action="delete").values_list("entity", flat=True)
    assert set(lines) >= {one.replace(":", ":sales.") for one in again}
    assert "dataset:sales.returns" in live() and SALES_ENTITIES <= live()
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 0, "deleted": 0}


@pytest.mark.parametrize("status", [403, 404])
def test_without_a_search_of_metadata_nothing_counts_as_created_again(connected, status):
    output("sync", "prod")
    connected.namespaces["sales"].created["dataset", "orders"] = CREATED + 1
    connected.faults[f"{SALES}/metadata/search"] = Answer(status, "no")
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 0, "deleted": 0}
    # the next sync that may search sees it
    del connected.faults[f"{SALES}/metadata/search"]
    assert output("sync", "prod")[0]["entities"] == {"new": 0, "live": 1, "deleted": 1}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"results": 1},
        {"results": [{}]},
        {"results": [{"entity": {"type": "dataset", "details": {}}}]},
        "x",
    ],
)
def test_an_unknown_answer_of_the_search_changes_nothing(connected, content):
    output("sync", "prod")
    connected.namespaces["sales"].datasets.append("returns")
    connected.faults[f"{SALES}/metadata/search"] = Answer(200, json.dumps(content))
    with pytest.raises(CommandError, match="metadata/search"):
        output("sync", "prod")
    assert "dataset:sales.returns" not in live()


@pytest.mark.parametrize("path", ["apps", "data/datasets", "securekeys/"])
def test_a_namespace_that_the_account_may_not_read_is_skipped_and_left_as_it_is(connected, path):
    output("sync", "prod")
    before = live()
    connected.namespaces["sales"].datasets.clear()
    connected.namespaces["sales"].generation += 1
    connected.faults[f"{SALES}/{path}"] = Answer(403, "Principal 'console' lacks LIST on namespace 'sales'.")
    [result] = output("sync", "prod")
    assert live() == before and result["entities"] == {"new": 0, "live": 0, "deleted": 0}
    [row] = result["unsupported"]
    assert row["subject"] == "namespace:sales" and "Principal 'console' lacks LIST" in row["reason"]
    # it was created again in the meantime, which the next sync sees
    del connected.faults[f"{SALES}/{path}"]
    assert output("sync", "prod")[0]["entities"]["deleted"] == 1


@pytest.mark.parametrize(("status", "is_deleted"), [(404, True), (403, False)])
def test_a_namespace_that_is_not_listed_is_deleted_unless_it_is_only_hidden(connected, status, is_deleted):
    output("sync", "prod")
    del connected.namespaces["hr"]
    connected.faults["namespaces/hr"] = Answer(status, "no")
    [result] = output("sync", "prod")
    assert [row["subject"] for row in result["unsupported"]] == ([] if is_deleted else ["namespace:hr"])
    assert ("dataset:hr.salaries" not in live()) is is_deleted


def test_system_services_that_the_account_may_not_list_are_left_as_they_are(connected):
    connected.system_services = ["appfabric", "metrics"]
    output("sync", "prod")
    before = live()
    connected.faults["system/services"] = Answer(403, "Principal 'console' lacks LIST.")
    [result] = output("sync", "prod")
    assert live() == before
    assert result["unsupported"] == [
        {
            "subject": "system services",
            "reason": "skipped, and left as they are: Principal 'console' lacks LIST.",
        }
    ]
    # one that is not enabled any more
    del connected.faults["system/services"], connected.system_services[1]
    output("sync", "prod")
    assert before - live() == {"system_service:metrics"}


def test_a_limited_account_deletes_nothing(cdap):
    output("add", "cdap", "prod", "--url", cdap.url, "--option", "account=limited")
    output("sync", "prod")
    before = live()
    cdap.namespaces["sales"].datasets.clear()
    del cdap.namespaces["hr"]
    assert output("sync", "prod")[0]["entities"]["deleted"] == 0
    assert live() == before


def test_a_list_that_became_empty_is_refused_until_confirmed(connected):
    connected.namespaces["hr"].datasets = [f"d{number}" for number in range(500)]
    connected.namespaces["sales"].datasets += [f"d{number}" for number in range(500)]
    output("sync", "prod")
    before = live()
    connected.namespaces["hr"].datasets = []
    with pytest.raises(CommandError, match=r"namespace:hr of prod, .* dataset, has 0 entities, and had 500"):
        output("sync", "prod")
    assert live() == before
    assert output("sync", "prod", "--accept-shrunken")[0]["entities"]["deleted"] == 500


def test_without_a_secure_store_the_other_entities_are_taken_over(connected):
    output("sync", "prod")
    for connected.version in ("4.3.4", "6.11.1"):
        connected.has_secure_store = False
        assert output("sync", "prod")[0]["unsupported"] == []
        assert "securekey:sales.db-password" in live()


def test_names_that_no_address_can_have_are_listed(connected):
    connected.namespaces["sales"].datasets += ["größe", "a b"]
    connected.namespaces["sales"].programs.append(("spark", "orders", "x.y"))
    connected.namespaces["bad-name"] = Namespace(datasets=["orders"])
    [result] = output("sync", "prod")
    assert {row["subject"] for row in result["unsupported"]} == {
        "dataset:sales.größe",
        "dataset:sales.a b",
        "program:sales.orders.spark.x.y",
        "namespace:bad-name",
        "dataset:bad-name.orders",
    }
    assert all(row["reason"] for row in result["unsupported"]) and SALES_ENTITIES <= live()


def redirect() -> Answer:
    return Answer(302, "", {"Location": "https://login.example/signin?next=/v3"})


@pytest.mark.parametrize(
    ("path", "fault", "message"),
    [
        ("version", HTML, "does not answer as CDAP does, but: <!DOCTYPE html>"),
        ("version", Answer(200, "{}"), "does not name a version"),
        ("namespaces", Answer(200, '[{"name": "sales"'), "does not answer as CDAP does"),
        ("namespaces", Answer(200, '[{"name": "sales"}]', cut=8), "does not answer"),
        ("namespaces", Answer(200, "{}"), "does not answer as CDAP does"),
        ("namespaces", Answer(200, '[{"title": "sales"}]'), "without `name`"),
        ("namespaces", redirect(), "redirects to https://login.example/signin"),
        ("namespaces", Answer(403, "Principal 'x' may not list."), "refused to this account: Principal 'x'"),
        (f"{SALES}/apps", HTML, "does not answer as CDAP does"),
        (f"{SALES}/apps", redirect(), "redirects to"),
        (f"{SALES}/apps", Answer(401, "invalid_token"), "does not accept the token: invalid_token"),
        (f"{SALES}/spark", Answer(404, "gone"), "does not exist"),
        (f"{SALES}/artifacts", Answer(500, "java.lang.NPE"), "failed with 500: java.lang.NPE"),
        (f"{SALES}/data/datasets", Answer(503, "starting"), "failed with 503: starting"),
        (
            f"{SALES}/data/datasets",
            Answer(200, "[", pause=1),
            "does not answer: nothing arrived for .* seconds",
        ),
    ],
)
def test_a_fault_says_what_to_check_and_changes_nothing(connected, monkeypatch, path, fault, message):
    output("sync", "prod")
    before, journal = live(), JournalLine.objects.count()
    connected.namespaces["hr"].datasets += ["bonuses"]
    connected.faults[path] = fault
    monkeypatch.setattr(http, "READ_SECONDS", 0.3)
    with pytest.raises(CommandError, match=message):
        output("sync", "prod")
    assert live() == before and JournalLine.objects.count() == journal


@pytest.mark.parametrize(
    ("part", "written"),
    [("", ""), ("127.0.0.1:", "127.0.0.1:0"), ("", "/a/.."), ("", "/%61")],
)
def test_a_name_that_gets_another_address_after_the_check_is_not_connected(
    connected, monkeypatch, part, written
):
    """`127.0.0.1` stands for the metadata service, of which the first answer of the DNS server did not speak. The
    library that sends requests changes the form of some addresses.
    """
    row = Connection.objects.get()
    Connection.objects.update(url=row.url.replace(part, written) if part else f"{row.url}{written}")
    monkeypatch.setattr(peers, "_METADATA", [ipaddress.ip_network("127.0.0.1")])
    monkeypatch.setattr(services, "check_host", lambda host: None)
    connected.token = TOKEN
    with pytest.raises(CommandError, match=r"127\.0\.0\.1 is not the address of a platform"):
        output("sync", "prod")
    assert not connected.requests


def test_an_answer_without_an_end_is_refused(connected, monkeypatch):
    """A small answer may be compressed from one of any size."""
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 2**20)
    monkeypatch.setattr(http, "BYTES_PER_READ", 2**16)
    large = gzip.compress(b" " * 2**26)
    connected.faults["namespaces"] = Answer(200, large, {"Content-Encoding": "gzip"})
    with pytest.raises(CommandError, match="answers with more than 1 MB"):
        output("sync", "prod")
    connected.faults["namespaces"] = Answer(200, "[" * 2**17)
    with pytest.raises(CommandError, match="does not answer as CDAP does"):
        output("sync", "prod")


@pytest.mark.parametrize(
    "start",
    [
        "",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200 OK\r\nServer: ",
        # the length of a part, which can have a comment
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    ],
)
def test_an_answer_that_is_sent_byte_by_byte_is_refused(connected, monkeypatch, start):
    monkeypatch.setattr(http, "MAX_ANSWER_SECONDS", 0.2)
    connected.faults["namespaces"] = Answer(200, "[" + " " * 100, bytes_per_second=20, start=start)
    with pytest.raises(CommandError, match="for more than"):
        output("sync", "prod")


def test_a_fault_that_ends_is_repeated(connected):
    connected.faults[f"{SALES}/apps"] = [Answer(503, "starting"), Answer(200, "[]", cut=1)]
    connected.faults[f"{SALES}/data/datasets"] = [Answer(502), Answer(429)]
    output("sync", "prod")
    assert SALES_ENTITIES <= live()


def test_a_server_that_does_not_run_is_named():
    output("add", "cdap", "prod", "--url", "http://127.0.0.1:1")
    with pytest.raises(
        CommandError, match=r"http://127\.0\.0\.1:1/v3/version does not answer: Connection refused$"
    ):
        output("sync", "prod")


def test_the_token_is_in_the_environment_and_in_no_message(connected, monkeypatch):
    connected.token = TOKEN
    with pytest.raises(CommandError, match="invalid_token"):
        output("sync", "prod")
    monkeypatch.setenv("CONNECTION_PROD_TOKEN", TOKEN)
    output("sync", "prod")
    assert connected.requests[-1][1]["Authorization"] == f"Bearer {TOKEN}"
    connected.token = "another, because this one was revoked"
    for token in (TOKEN, TOKEN + "\nX-Other: 1"):
        monkeypatch.setenv("CONNECTION_PROD_TOKEN", token)
        with pytest.raises(CommandError, match="token") as error:
            output("sync", "prod")
        assert TOKEN not in str(error.value)
    assert TOKEN not in str(Connection.objects.values())


def test_the_token_in_the_environment_goes_to_its_address_only(connected, monkeypatch):
    connected.token = TOKEN
    monkeypatch.setenv("CONNECTION_PROD_TOKEN", TOKEN)
    monkeypatch.setenv("CONNECTION_PROD_URL", Connection.objects.get().url)
    output("sync", "prod")
    connected.requests.clear()
    monkeypatch.setenv("CONNECTION_PROD_URL", "https://cdap.example")
    with pytest.raises(CommandError, match="CONNECTION_PROD_URL") as error:
        output("sync", "prod")
    assert TOKEN not in str(error.value) and not connected.requests


def store_token(monkeypatch, token: str, *arguments: str) -> str:
    """Run the command with a token in its standard input, and return what it prints."""
    stdout = StringIO()
    monkeypatch.setattr("sys.stdin", StringIO(token))
    call_command("connection", "token", "prod", *arguments, stdout=stdout, stderr=StringIO())
    return stdout.getvalue()


def test_a_stored_token_is_encrypted_and_the_environment_takes_its_place(connected, monkeypatch, settings):
    connected.token = TOKEN
    assert TOKEN not in store_token(monkeypatch, f"{TOKEN}\n")
    output("sync", "prod")
    stored = Connection.objects.get().secret
    assert stored and TOKEN not in str(Connection.objects.values())
    line = JournalLine.objects.get(action="connection-change")
    assert line.detail == "prod: token stored"
    # a new key is put before the old one
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another" * 10
    output("sync", "prod")
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(CommandError, match="cannot be decrypted"):
        output("sync", "prod")
    monkeypatch.setenv("CONNECTION_PROD_TOKEN", TOKEN)
    output("sync", "prod")
    monkeypatch.delenv("CONNECTION_PROD_TOKEN")
    store_token(monkeypatch, "", "--remove")
    assert not Connection.objects.get().secret
    with pytest.raises(CommandError, match="does not accept the token"):
        output("sync", "prod")


@pytest.mark.parametrize(
    ("token", "message"),
    [("", "standard input is empty"), ("a b", "no token has"), ("größe", "no token has")],
)
def test_what_cannot_be_a_token_is_not_stored(connected, monkeypatch, token, message):
    with pytest.raises(CommandError, match=message) as error:
        store_token(monkeypatch, token)
    assert not Connection.objects.get().secret and (not token or token not in str(error.value))


def test_a_platform_without_tokens_stores_none(monkeypatch):
    output("add", "hive", "prod", "--url", "thrift://127.0.0.1")
    with pytest.raises(CommandError, match="of the type hive has no token"):
        store_token(monkeypatch, TOKEN)


def test_neither_a_proxy_nor_a_password_of_the_environment_is_used(connected, monkeypatch, tmp_path):
    host = "127.0.0.1"
    (tmp_path / ".netrc").write_text(f"machine {host} login eve password x\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    output("sync", "prod")
    assert "Authorization" not in connected.requests[-1][1]


def test_the_identity_can_be_a_header_of_a_proxy(cdap):
    options = ("--option", "user_header=X-User", "--option", "user=console")
    output("add", "cdap", "prod", "--url", f"{cdap.url}/", *options)
    output("sync", "prod")
    assert all(headers["X-User"] == "console" for _, headers in cdap.requests)


def test_a_prefix_of_the_address_is_kept(cdap):
    with running(Cdap()) as prefixed:
        answer = prefixed.answer
        prefixed.answer = lambda method, target, *rest: answer(method, target.removeprefix("/api"), *rest)
        output("add", "cdap", "prod", "--url", f"{prefixed.url}/api/v3/")
        assert output("sync", "prod")[0]["entities"]["new"] == 1


def test_a_certificate_is_verified(tmp_path):
    for folder in ("right", "wrong"):
        (tmp_path / folder).mkdir()
    right = certificate(tmp_path / "right", "IP:127.0.0.1")
    wrong = certificate(tmp_path / "wrong", "DNS:cdap.example")
    for tls, verify, message in (
        (right, "yes", "set the option `verify` to a file"),
        (right, right[0], ""),
        (wrong, wrong[0], "in the address, write a name that the certificate has"),
        (wrong, "no", ""),
        (right, str(tmp_path / "none.pem"), "cannot be read"),
    ):
        with running(Cdap(), tls) as server:
            name = f"c{Connection.objects.count()}"
            output("add", "cdap", name, "--url", server.url, "--option", f"verify={verify}")
            if not message:
                output("sync", name)
            else:
                with pytest.raises(CommandError, match=message):
                    output("sync", name)
                assert not server.requests


def test_a_thousand_namespaces_are_read(connected):
    connected.namespaces |= {f"n{number}": Namespace(datasets=["d"]) for number in range(1_000)}
    output("sync", "prod")
    assert Entity.objects.filter(kind="dataset", state="live").count() == 1_003


@pytest.mark.parametrize(
    "arguments", [["drift", "prod"], ["push", "prod"], ["push", "prod", "--apply", "--reason", "x"]]
)
def test_a_platform_without_grants_has_no_drift_and_accepts_no_push(connected, arguments):
    with pytest.raises(CommandError, match="prod shows no grants"):
        output(*arguments)
    assert not connected.requests


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("thrift://x", [], "write https://HOST:PORT"),
        ("https://", [], "write https://HOST:PORT"),
        ("https://user:password@x", [], "write https://HOST:PORT"),
        ("https://x:port", [], "write https://HOST:PORT"),
        ("https://x", ["account=some"], "write full or limited"),
        ("https://x", ["user=console"], "belong together"),
        ("https://x", ["user_header=X User", "user=console"], "cannot be sent as a header"),
        ("https://x", ["token=secret"], "its options are account, user, user_header, verify"),
    ],
)
def test_bad_input_says_how_to_fix_it(url, options, message):
    arguments = [argument for option in options for argument in ("--option", option)]
    with pytest.raises(CommandError, match=message) as error:
        output("add", "cdap", "prod", "--url", url, *arguments)
    assert not Connection.objects.exists()
    assert "secret" not in str(error.value)
