"""Compare the console with Ranger Admin, a stand-in with its REST API and with faults, and bring each in line with the
other.
"""

import json
from copy import deepcopy
from io import StringIO
from random import Random

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django.asserts import assertContains

from authzconsole.connections import http, services
from authzconsole.models import Connection
from entities.address import parse_grantable
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.change_set import AddUser, ChangeSet, Grant
from grants.changes import apply
from grants.evaluation.engine import answer_questions
from grants.evaluation.remarks import replace_remarks
from grants.jobs import run_job
from grants.models import Job, JournalLine, Membership, Remark, RoleGroup, User
from grants.policies.question import Question
from grants.principals.services import add_role
from grants.validity import Validity
from tests.connections.ranger.policy_files import NOTHING_BELOW, item, policy
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import apply_plan, register_entity, revoke_grant, set_user_active
from tests.support.guardrails import add_guardrail
from tests.support.ranger_server import API, PASSWORD, example
from tests.support.stand_in import Answer, certificate, running

pytestmark = pytest.mark.django_db
EXPORT = "GET /service/plugins/policies/exportJson"
SERVICE = f"GET {API}/service/name/cdapdev"
HTML = Answer(200, "<!DOCTYPE html><title>Ranger - Sign In</title>", {"Content-Type": "text/html"})
EXAMPLE_GRANTS = {
    *(
        (principal, f"dataset:bookings.{name}", "READ")
        for principal in ("user:alice", "group:analysts")
        for name in ("orders", "customers")
    ),
    ("role:stewards", "namespace:bookings", "READ"),
    ("role:stewards", "namespace:bookings", "WRITE"),
    ("group:analysts", "dataset:bookings.reports_*", "READ"),
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(http, "PAUSES_SECONDS", (0.01, 0.01))
    monkeypatch.setenv("CONNECTION_POLICIES_PASSWORD", PASSWORD)


@pytest.fixture
def ranger():
    with running(example()) as server:
        yield server


@pytest.fixture
def connected(ranger):
    add_connection(ranger)
    return ranger


@pytest.fixture
def synced(connected):
    output("sync", "policies")
    return connected


def add_connection(server, *options: str) -> None:
    pairs = ("service=cdapdev", "user=console", *options)
    arguments = [argument for option in pairs for argument in ("--option", option)]
    output("add", "ranger", "policies", "--url", server.url, *arguments)


def output(*arguments: str) -> list[dict]:
    """Run the command, and return the objects that it prints."""
    stdout = StringIO()
    call_command("connection", *arguments, stdout=stdout, stderr=StringIO())
    return [json.loads(line) for line in stdout.getvalue().splitlines() if line.startswith("{")]


def add_grant(principal: str, address: str, privilege: str, *validity: Validity) -> None:
    """Make a grant, to a user who is added if needed."""
    user = principal.removeprefix("user:")
    added = [AddUser(user)] if user != principal and not User.objects.filter(username=user) else []
    change = Grant(principal, parse_grantable(address), Privilege[privilege], *validity)
    apply(ChangeSet.of(*added, change), author=COMMAND)


def push() -> list[dict]:
    return output("push", "policies", "--apply", "--reason", "quarterly review")


def test_the_connection_can_be_tested_on_its_page(connected):
    client = Client()
    client.force_login(User.objects.create(username="ada", role="administrator"))
    assert client.post("/connections/policies/run", {"verb": "test"}).status_code == 303
    job = Job.objects.latest("pk")
    run_job(job.pk)
    job.refresh_from_db()
    assert (job.state, job.error) == ("done", "")
    page = client.get("/connections/policies/")
    assertContains(page, "role:stewards")
    assertContains(page, "policy 357")
    assertContains(page, "the platform has policies instead")


def test_a_sync_takes_over_grants_patterns_and_roles(connected):
    [result] = output("sync", "policies", "--dry-run")
    assert result["grants"] == {"granted": 7, "revoked": 0} and not all_grants()
    assert output("sync", "policies") == [result]
    assert all_grants() == EXAMPLE_GRANTS
    assert result["principals"] == {"users": 2, "groups": 1, "roles": 1, "joined": 1, "left": 0}
    assert result["unsupported"] == [
        {
            "subject": "policy 357 `bookings reports`",
            "reason": "the policy has deny items or exceptions, which Ranger 0.7 ignores and Ranger 2 applies",
        }
    ]
    assert {str(row) for row in Membership.objects.all()} == {"user:carol in role:stewards"}
    assert {entity.state for entity in Entity.objects.exclude(kind="instance")} == {"planned"}
    assert output("drift", "policies") == []
    assert output("sync", "policies")[0]["grants"] == {"granted": 0, "revoked": 0}


def test_a_dry_run_names_the_guardrails_that_the_sync_would_violate(connected):
    register_entity("namespace:bookings")
    readers = {"forbid": {"privileges": ["READ"], "within": "dataset:bookings.orders"}}
    register_entity("dataset:bookings.orders")
    add_guardrail("no-readers", readers)
    stderr = StringIO()
    call_command("connection", "sync", "policies", "--dry-run", stdout=StringIO(), stderr=stderr)
    assert "guardrail no-readers forbids this change: user:alice would hold READ on" in stderr.getvalue()
    assert not all_grants() and not User.objects.filter(username="alice").exists()
    with pytest.raises(CommandError, match="guardrail no-readers forbids this change"):
        output("sync", "policies")


def test_the_plan_of_a_sync_makes_the_same_changes(connected):
    connection = services.connection_by_name("policies")
    plan = services.prepare_sync(connection, services.computed_sync(connection), author=COMMAND)
    assert (plan.effect["grants"], plan.effect["users"], all_grants()) == (7, 2, set())
    apply_plan(plan)
    assert all_grants() == EXAMPLE_GRANTS
    assert output("drift", "policies") == []
    connection.refresh_from_db()
    assert not services.computed_sync(connection).change_set.changes and connection.plan is None


def test_a_sync_deletes_no_entity_and_revokes_what_no_policy_gives(synced):
    register_entity("namespace:bookings")
    register_entity("dataset:bookings.orders")
    synced.named("bookings data")["resources"]["dataset"]["values"].remove("orders")
    [result] = output("sync", "policies")
    assert result["entities"] == {"new": 0, "live": 0, "deleted": 0}
    assert result["grants"] == {"granted": 0, "revoked": 2}
    assert Entity.objects.get(key="bookings.orders").is_live


def test_a_sync_that_would_revoke_more_than_half_is_refused_until_confirmed(synced):
    del synced.policies[355], synced.policies[356]
    with pytest.raises(
        CommandError, match="policies gives 1 grant, and the console has 7 on the same addresses"
    ):
        output("sync", "policies")
    assert all_grants() == EXAMPLE_GRANTS
    assert output("sync", "policies", "--accept-shrunken")[0]["grants"]["revoked"] == 6


def test_a_sync_leaves_grants_on_addresses_that_no_policy_names(connected):
    add_grant("user:alice", "dataset:hr.pay", "READ")
    add_grant("user:alice", "dataset:bookings.orders", "ADMIN")
    assert output("sync", "policies")[0]["grants"] == {"granted": 7, "revoked": 1}
    assert all_grants() == {*EXAMPLE_GRANTS, ("user:alice", "dataset:hr.pay", "READ")}
    assert [row["entity"] for row in output("drift", "policies")] == ["dataset:hr.pay"]


def test_without_a_policy_ranger_answers_without_content(synced):
    synced.policies.clear()
    with pytest.raises(CommandError, match="gives 0 grants"):
        output("sync", "policies")


def test_drift_names_what_only_one_side_grants(synced):
    revoke_grant("user:alice", "dataset:bookings.orders", "READ")
    add_grant("user:alice", "dataset:hr.*", "WRITE")
    synced.add(policy("bob", "execute", namespace="bookings", dataset="orders"))
    synced.named("bookings reports")["validitySchedules"] = [
        {"startTime": "", "endTime": "2099/01/01 00:00:00"}
    ]
    rows = [tuple(row.values()) for row in output("drift", "policies")]
    assert rows == [
        ("group:analysts", "dataset:bookings.reports_*", "READ", True, True),
        ("user:alice", "dataset:bookings.orders", "READ", False, True),
        ("user:alice", "dataset:hr.*", "WRITE", True, False),
        ("user:bob", "dataset:bookings.orders", "EXECUTE", False, True),
    ]


def test_grants_that_another_platform_stores_are_not_compared(synced):
    add_grant("user:alice", "dataset:lake.orders", "READ")
    lake = Connection.objects.create(type="hive", name="lake", url="thrift://x")
    lake.entities.add(Entity.objects.get(key="lake.orders"))
    assert output("drift", "policies") == [] == push()
    # CDAP lists entities, and stores no grants
    Connection.objects.filter(name="lake").update(type="cdap")
    assert [row["entity"] for row in output("drift", "policies")] == ["dataset:lake.orders"]


def remarks(name: str = "bob") -> list[str]:
    question = Question(
        "user", name, "READ", parse_grantable("dataset:bookings.reports_q1"), "final", explain=True
    )
    (answer,) = answer_questions([question])
    return answer["context"].get("remarks", [])


def test_each_sync_replaces_the_remarks_and_they_end_with_the_connection(connected):
    """Also a sync that only makes a plan; and the remarks of an imported file of the same service end with the sync."""
    replace_remarks([Remark(number=1, part="item", privileges="READ", text="an old file")], "import cdapdev")
    output("sync", "policies", "--dry-run")
    add_grant("user:mallory", "dataset:bookings.reports_q1", "READ")
    assert remarks("mallory") == ["an old file"]
    connection = services.connection_by_name("policies")
    services.prepare_sync(connection, services.computed_sync(connection), author=COMMAND)
    (remark,) = remarks("mallory")
    assert remark.startswith(
        "Ranger policy `bookings reports` denies READ on dataset:bookings.reports_* to user:mallory"
    )
    denial = connected.named("bookings reports")["denyPolicyItems"]
    connected.named("bookings reports")["denyPolicyItems"] = []
    output("sync", "policies", "--accept-shrunken")
    assert not Remark.objects.exists()
    connected.named("bookings reports")["denyPolicyItems"] = denial
    output("sync", "policies", "--accept-shrunken")
    assert Remark.objects.exists()
    services.delete_connection(services.connection_by_name("policies"), author=COMMAND)
    assert not Remark.objects.exists()


def test_a_tag_service_may_change_every_answer(connected):
    connected.tag_service = "tags"
    output("sync", "policies")
    add_grant("user:mallory", "dataset:lab.d1", "READ")
    (remark,) = remarks("alice")
    assert remark == (
        "The console does not read the policies of `tags`, the tag service of the Ranger service `cdapdev`, so the platform "
        "may answer differently."
    )


def test_a_push_changes_only_what_differs(synced):
    revoke_grant("user:alice", "dataset:bookings.orders", "READ")
    add_grant("group:analysts", "dataset:bookings.reports_*", "WRITE")
    add_grant("user:bob", "dataset:hr.salaries", "READ")
    before = deepcopy(synced.policies)
    shown = output("push", "policies")
    assert [tuple(row.values()) for row in shown] == [
        (
            "grant",
            "group:analysts",
            "dataset:bookings.reports_*",
            ["write"],
            "update 357 `bookings reports`, version 1",
        ),
        (
            "grant",
            "user:alice",
            "dataset:bookings.customers",
            ["read"],
            "create `dataset:bookings.customers`",
        ),
        (
            "revoke",
            "user:alice",
            "dataset:bookings.customers",
            ["read"],
            "update 355 `bookings data`, version 1",
        ),
        (
            "revoke",
            "user:alice",
            "dataset:bookings.orders",
            ["read"],
            "update 355 `bookings data`, version 1",
        ),
        ("grant", "user:bob", "dataset:hr.salaries", ["read"], "create `dataset:hr.salaries`"),
    ]
    assert synced.policies == before
    assert push() == shown
    assert output("drift", "policies") == [] == push()
    after = synced.policies
    assert after[356] == before[356]
    assert after[357]["denyPolicyItems"] == before[357]["denyPolicyItems"]
    assert after[357]["version"] == 2 and after[357]["guid"] == before[357]["guid"]
    assert after[355]["resources"] == before[355]["resources"]
    assert [entry["groups"] for entry in after[355]["policyItems"]] == [["analysts"]]
    assert JournalLine.objects.filter(action="connection-push").latest("pk").reason == "quarterly review"


def test_a_push_deletes_a_policy_that_gives_nothing_any_more(synced):
    for privilege in ("READ", "WRITE"):
        revoke_grant("role:stewards", "namespace:bookings", privilege)
    revoke_grant("group:analysts", "dataset:bookings.reports_*", "READ")
    push()
    assert 356 not in synced.policies
    # its deny items remain
    assert synced.policies[357]["policyItems"] == []


def test_a_push_keeps_what_the_console_cannot_express(connected):
    connected.add(
        policy(
            name="mixed",
            namespace="hr",
            dataset="pay",
            policyItems=[
                item("ann", "bob", groups=["public"], conditions=[{"type": "ip", "values": ["10.0.0.1"]}]),
                item("ann", "{USER}", accesses="read write"),
            ],
        )
    )
    connected.add(policy("ann", namespace="hr", name="off", isEnabled=False))
    connected.add(policy("ann", namespace={"values": ["hr"], "isExcludes": True}, name="all but hr"))
    output("sync", "policies")
    revoke_grant("user:ann", "dataset:hr.pay", "READ")
    push()
    first, second, third = connected.named("mixed")["policyItems"]
    assert (first["users"], first["groups"], first["conditions"][0]["type"]) == (["bob"], ["public"], "ip")
    assert (second["users"], [access["type"] for access in second["accesses"]]) == (
        ["{USER}"],
        ["read", "write"],
    )
    assert (third["users"], [access["type"] for access in third["accesses"]]) == (["ann"], ["write"])
    assert connected.named("off")["version"] == connected.named("all but hr")["version"] == 1
    assert output("drift", "policies") == []


def test_a_push_writes_and_changes_periods(synced):
    add_grant("user:alice", "dataset:bookings.orders", "READ", Validity.parse(None, "2099-01-01T00:00:00Z"))
    add_grant("user:bob", "dataset:hr.pay", "READ", Validity.parse("2098-01-01T00:00:00Z"))
    push()
    schedules = {
        schedule["endTime"] or schedule["startTime"]
        for row in synced.policies.values()
        for schedule in row.get("validitySchedules", ())
    }
    assert schedules == {"2099/01/01 00:00:00", "2098/01/01 00:00:00"}
    assert output("drift", "policies") == []
    assert output("sync", "policies")[0]["grants"] == {"granted": 0, "revoked": 0}


def test_a_push_leaves_out_inactive_users_and_what_no_policy_can_give(synced):
    set_user_active("alice", active=False)
    for address in ("dataset:bookings.**", "profile:bookings.small"):
        add_grant("group:analysts", address, "READ")
    assert push()
    assert "alice" not in json.dumps(synced.policies) and "small" not in json.dumps(synced.policies)
    errors = StringIO()
    call_command("connection", "push", "policies", stdout=StringIO(), stderr=errors)
    unsupported, summary = errors.getvalue().splitlines()
    assert summary.endswith("changes would be made on policies")
    assert json.loads(unsupported) == {
        "subject": "READ on dataset:bookings.** for group:analysts",
        "reason": "a policy for it gives dataset:bookings.*, namespace:bookings: grant this instead",
    }


def test_a_push_creates_a_role_that_is_to_hold_a_grant(synced):
    add_role(author=COMMAND, name="leads")
    add_grant("role:leads", "dataset:bookings.orders", "READ")
    assert [row["verb"] for row in push()] == ["create", "grant"]
    assert [role["name"] for role in synced.roles] == ["stewards", "leads"]
    synced.roles = None
    add_grant("role:leads", "dataset:bookings.customers", "READ")
    errors = StringIO()
    call_command("connection", "push", "policies", stdout=StringIO(), stderr=errors)
    assert "this version of Ranger has no roles" in errors.getvalue()


@pytest.mark.parametrize("change", ["policy_version", "while it is written"])
def test_a_push_is_refused_if_ranger_changed(synced, change):
    revoke_grant("user:alice", "dataset:bookings.orders", "READ")
    output("push", "policies")
    before = json.dumps(synced.policies)
    if change == "policy_version":
        # another administrator changed a policy, and changed it back
        synced.policy_version += 2
    else:
        stored = synced.policies[355] | {"version": 9}
        synced.faults[f"GET {API}/policy/355"] = Answer(200, json.dumps(stored))
    with pytest.raises(CommandError, match="changed since its changes were shown|changed in the meantime"):
        push()
    assert json.dumps(synced.policies[355]) in before


def test_members_of_roles_that_the_console_cannot_have_are_listed(connected):
    connected.roles[0] |= {
        "users": [{"name": "carol", "isAdmin": True}, {"name": "x\u0007"}],
        "groups": [{"name": "analysts"}],
        "roles": [{"name": "owners"}],
    }
    connected.roles.append({"name": "of another service", "users": [{"name": "eve"}]})
    [result] = output("sync", "policies")
    subjects = {row["subject"] for row in result["unsupported"]}
    assert {"user:carol in role:stewards", "role:owners in role:stewards"} <= subjects
    assert "user:x\u0007 in role:stewards" in subjects
    assert {str(row) for row in RoleGroup.objects.all()} == {"group:analysts in role:stewards"}
    assert not Membership.objects.filter(user__username="eve")


def test_a_policy_that_cannot_be_taken_over_is_listed(connected):
    connected.tag_service = "cdaptag"
    connected.add(
        policy(
            groups=["role:x"],
            name="odd",
            namespace="hr",
            policyItems=[item("a\u0007", groups=["role:x", "public"])],
            validitySchedules=[{"startTime": "", "endTime": "2020/01/01 00:00:00"}],
        )
    )
    connected.add(policy(name="names", namespace="hr", policyItems=[item("a\u0007", groups=["role:x"])]))
    [result] = output("sync", "policies")
    rows = {(row["subject"], row["reason"]) for row in result["unsupported"]}
    assert ("service cdapdev", "the policies of its tag service `cdaptag`") in rows
    reasons = " ".join(reason for subject, reason in rows)
    for part in (
        "is in the past; it is not taken over",
        "holds a control character",
        "is a role: write role:x",
    ):
        assert part in reasons
    assert output("drift", "policies") == [] == push()


@pytest.mark.parametrize(
    ("path", "fault", "message"),
    [
        (SERVICE, HTML, "does not answer as Ranger Admin does, but: <!DOCTYPE html>"),
        (SERVICE, Answer(200, "{}"), "does not answer as Ranger Admin does"),
        (SERVICE, Answer(200, '{"type": "hive"}'), "is of the type `hive`, not `cdap`"),
        (SERVICE, Answer(302, "", {"Location": "https://x/login.jsp"}), "redirects to https://x/login.jsp"),
        (SERVICE, Answer(403, '{"msgDesc": "User is not allowed"}'), "refused to this account: User is not"),
        (SERVICE, Answer(404, "<html>"), "does not exist: check the address"),
        (EXPORT, HTML, "is HTML or XML, not JSON"),
        (EXPORT, Answer(200, '{"policies": [{"id": 1'), "policies"),
        (EXPORT, Answer(200, '{"policies": []}', cut=5), "does not answer"),
        (
            EXPORT,
            Answer(200, '{"policies": [{"name": "x", "resources": {"instance": {}}}]}'),
            "without an id",
        ),
        (EXPORT, Answer(500, "java.lang.NPE"), "failed with 500: java.lang.NPE"),
        (EXPORT, Answer(200, "{}", pause=1), "does not answer: .*timed out"),
        (f"GET {API}/roles", HTML, "does not answer as Ranger Admin does"),
    ],
)
@pytest.mark.parametrize("verb", ["sync", "push"])
def test_a_fault_says_what_to_check_and_changes_nothing(synced, monkeypatch, path, fault, message, verb):
    revoke_grant("user:alice", "dataset:bookings.orders", "READ")
    before, journal, policies = all_grants(), JournalLine.objects.count(), json.dumps(synced.policies)
    synced.faults[path] = fault
    monkeypatch.setattr(http, "READ_SECONDS", 0.3)
    with pytest.raises(CommandError, match=message):
        push() if verb == "push" else output("sync", "policies")
    assert all_grants() == before and JournalLine.objects.count() == journal
    assert json.dumps(synced.policies) == policies


def test_a_refused_write_says_why_and_that_a_part_may_be_made(synced):
    add_grant("user:bob", "dataset:hr.pay", "READ")
    message = '{"statusCode": 1, "msgDesc": "User name: bob specified in policy does not exist"}'
    synced.faults[f"POST {API}/policy"] = Answer(400, message)
    with pytest.raises(CommandError, match="User name: bob specified in policy does not exist; a part of"):
        push()


def test_a_write_that_fails_for_a_moment_is_not_repeated(synced):
    add_grant("user:bob", "dataset:hr.pay", "READ")
    synced.faults[f"POST {API}/policy"] = [Answer(503)]
    with pytest.raises(CommandError, match="failed with 503"):
        push()
    assert [method for method, _ in synced.requests].count("POST") == 1


def test_a_revoked_or_missing_password_is_named_and_never_shown(synced, monkeypatch):
    synced.password = "another, because this one was changed"
    with pytest.raises(CommandError, match="does not accept the password: Authentication Failed") as error:
        output("sync", "policies")
    assert PASSWORD not in str(error.value)
    monkeypatch.delenv("CONNECTION_POLICIES_PASSWORD")
    # that of a token does not count
    monkeypatch.setenv("CONNECTION_POLICIES_TOKEN", PASSWORD)
    with pytest.raises(CommandError, match="the password of `console` is missing"):
        output("sync", "policies")
    synced.password = PASSWORD
    monkeypatch.setattr("sys.stdin", StringIO(f"{PASSWORD}\n"))
    output("token", "policies")
    assert output("drift", "policies") == []
    assert PASSWORD not in str(Connection.objects.values())
    assert JournalLine.objects.get(action="connection-change").detail == "policies: password stored"


def test_a_certificate_that_does_not_match_is_refused(tmp_path):
    with running(example(), certificate(tmp_path, "DNS:ranger.example")) as server:
        add_connection(server, f"verify={tmp_path}/certificate.pem")
        with pytest.raises(CommandError, match="certificate that is not trusted"):
            output("sync", "policies")
        assert not server.requests


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["user=x"], "the option `service` of ranger is missing"),
        (["service=x"], "the option `user` of ranger is missing"),
        (["service=x", "user=a:b"], "has a colon"),
        (["service=x", "user=a", "password=secret"], "its options are service, user, verify"),
    ],
)
def test_bad_options_say_how_to_fix_them(options, message):
    arguments = [argument for option in options for argument in ("--option", option)]
    with pytest.raises(CommandError, match=message) as error:
        output("add", "ranger", "policies", "--url", "https://x", *arguments)
    assert "secret" not in str(error.value)


def test_an_unknown_service_is_named(ranger):
    ranger.service = "other"
    add_connection(ranger)
    with pytest.raises(CommandError, match="has no service `cdapdev`: check the option"):
        output("sync", "policies")


@pytest.mark.parametrize("seed", range(12))
def test_after_a_push_of_random_changes_nothing_differs(ranger, seed):
    """Policies on several names, patterns and containers, of which the console then changes some grants."""
    random = Random(seed)
    ranger.policies.clear()
    add_connection(ranger)
    for number in range(8):
        levels = random.choice(
            [("namespace",), ("namespace", "dataset"), ("namespace", "application", "program")]
        )
        values = ["a", "b", "a b", "a*", "?*", "*"]
        parts = {
            level: random.choice(["spark.a", "*"])
            if level == "program"
            else random.choice([*values, NOTHING_BELOW])
            for level in levels
        }
        ranger.create(
            policy(
                random.choice(["ann", "bob"]),
                random.choice(["read", "read write"]),
                name=f"p{number}",
                **parts,
            )
            | {"service": "cdapdev"}
        )
    output("sync", "policies")
    held = sorted(all_grants())
    for grant in random.sample(held, len(held) // 3):
        revoke_grant(*grant)
    for address in random.sample(["dataset:a.*", "dataset:a.b", "namespace:c", "program:a.b.*"], 2):
        add_grant("user:ann", address, "ADMIN")
    expected = all_grants()
    push()
    assert output("drift", "policies") == [] == push()
    assert all_grants() == expected
    assert output("sync", "policies")[0]["grants"] == {"granted": 0, "revoked": 0}


def test_a_plan_of_a_sync_is_applied_and_what_a_policy_loses_later_is_revoked(connected):
    connection = services.connection_by_name("policies")
    plan = services.prepare_sync(connection, services.computed_sync(connection), author=COMMAND)
    assert not all_grants()
    apply_plan(plan)
    assert all_grants() == EXAMPLE_GRANTS
    del connected.policies[357]
    [result] = output("sync", "policies")
    assert result["grants"] == {"granted": 0, "revoked": 1}
    assert all_grants() == {grant for grant in EXAMPLE_GRANTS if "reports" not in grant[1]}
