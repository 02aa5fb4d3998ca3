"""Test explanations: the sentence, the attempts, the source and the missing grants of decisions."""

import pytest

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import ADMIN, EXECUTE, READ
from grants.evaluation.engine import check
from grants.policies.principals import type_and_name
from grants.policies.question import question_from_json
from grants.policies.wire import decision_as_json
from tests.support.random_tenants import Tenant, store_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def platform():
    """Store a tenant in which ada has ADMIN on everything in sales, bob is in the group analysts, and ina is
    inactive.
    """
    live = [
        "instance:cdap",
        "namespace:sales",
        "application:sales.orders",
        "program:sales.orders.workflow.daily",
        "dataset:sales.orders",
        "stream:sales.clicks",
        "artifact:sales.etl",
        "namespace:empty",
        "namespace:events",
        "stream:events.clicks",
        "stream:events.views",
        "dataset:events.log",
    ]
    tenant = Tenant({parse_address(text): State.LIVE for text in live})
    tenant.entities[parse_address("dataset:sales.deleted")] = State.DELETED
    tenant.users = {"ada": (True, True), "bob": (True, True), "ina": (False, True), "root": (True, False)}
    tenant.groups = {"analysts": ["bob", "ina"]}
    tenant.grants = {("user:ada", parse_address(text), ADMIN) for text in live[1:7]}
    tenant.grants |= {
        ("group:analysts", parse_address("program:sales.orders.workflow.daily"), EXECUTE),
        ("user:bob", parse_address("namespace:sales"), READ),
        ("user:bob", parse_address("namespace:sales"), ADMIN),
    }
    store_tenant(tenant)


def ask(subject, operation, address, **context):
    kind, _, key = address.partition(":")
    subject_type, name = type_and_name(subject)
    request = {
        "subject": {"type": subject_type, "id": name},
        "action": {"name": operation},
        "resource": {"type": kind, "id": key},
        "context": context,
    }
    return check(question_from_json(request, active_generation="final"))


@pytest.mark.parametrize(
    ("subject", "operation", "address", "context", "sentence"),
    [
        (
            "user:ada",
            "drop",
            "dataset:sales.orders",
            {},
            "Permitted: user:ada holds ADMIN on dataset:sales.orders.",
        ),
        (
            "user:bob",
            "start",
            "program:sales.orders.workflow.daily",
            {},
            "Permitted: user:bob holds EXECUTE on program:sales.orders.workflow.daily through group:analysts.",
        ),
        (
            "user:bob",
            "start",
            "program:sales.orders.workflow.daily",
            {"generation": "existing"},
            "Permitted: user:bob holds EXECUTE on program:sales.orders.workflow.daily through group:analysts and READ on "
            "namespace:sales.",
        ),
        (
            "group:analysts",
            "start",
            "program:sales.orders.workflow.daily",
            {"generation": "existing"},
            "Denied: group:analysts lacks READ on namespace:sales.",
        ),
        (
            "group:analysts",
            "list",
            "namespace:sales",
            {},
            "Permitted: group:analysts holds EXECUTE on program:sales.orders.workflow.daily.",
        ),
        (
            "user:bob",
            "read",
            "dataset:sales.orders",
            {},
            "Denied: user:bob lacks READ on dataset:sales.orders.",
        ),
        (
            "user:bob",
            "write",
            "dataset:sales.orders",
            {"generation": "existing"},
            "Denied: user:bob holds neither WRITE on dataset:sales.orders nor WRITE on namespace:sales.",
        ),
        (
            "user:ada",
            "set-instances",
            "program:sales.orders.workflow.gone",
            {"generation": "existing"},
            "Permitted: user:ada holds ADMIN on application:sales.orders.",
        ),
        (
            "group:analysts",
            "stop",
            "program:sales.orders.workflow.other",
            {"generation": "existing"},
            "Denied: group:analysts lacks one of EXECUTE on program:sales.orders.workflow.other, EXECUTE on "
            "application:sales.orders or EXECUTE on namespace:sales and READ on namespace:sales.",
        ),
        (
            "user:ada",
            "delete",
            "namespace:sales",
            {},
            "Permitted: user:ada holds ADMIN on namespace:sales and ADMIN on all 5 live entities in namespace:sales.",
        ),
        (
            "user:bob",
            "delete",
            "namespace:sales",
            {},
            "Denied: user:bob lacks ADMIN on 5 of the 5 live entities in namespace:sales (artifact:sales.etl and 4 more).",
        ),
        (
            "user:bob",
            "delete-all-streams",
            "namespace:events",
            {},
            "Denied: user:bob lacks ADMIN on 2 of the 2 live streams in namespace:events (stream:events.clicks and 1 more).",
        ),
        (
            "user:bob",
            "delete-all-streams",
            "namespace:events",
            {"generation": "existing"},
            "Denied: user:bob holds neither ADMIN on namespace:events nor ADMIN on 2 of the 2 live streams in namespace:events "
            "(stream:events.clicks and 1 more).",
        ),
        (
            "user:bob",
            "list",
            "namespace:empty",
            {"generation": "core"},
            "Permitted: `list` requires only an active principal.",
        ),
        (
            "user:bob",
            "delete-all-streams",
            "namespace:empty",
            {},
            "Permitted: user:bob holds ADMIN on all live streams in namespace:empty, of which there are none.",
        ),
        (
            "user:ina",
            "list",
            "namespace:sales",
            {"generation": "core"},
            "Denied: user:ina is not a known, active principal.",
        ),
        (
            "user:root",
            "list",
            "namespace:sales",
            {"generation": "core"},
            "Denied: user:root is not a known, active principal.",
        ),
        (
            "user:zed",
            "READ",
            "dataset:sales.orders",
            {},
            "Denied: user:zed is not a known, active principal.",
        ),
        (
            "user:ada",
            "get",
            "dataset:sales.orders",
            {"generation": "existing"},
            "Denied: the `existing` generation has no rule for `get` on a dataset.",
        ),
        (
            "user:ada",
            "delete-all-streams",
            "namespace:sales",
            {"generation": "core"},
            "Denied: the `core` generation has no rule for `delete-all-streams` on a namespace; ask `delete` on each entity.",
        ),
        (
            "user:ada",
            "ADMIN",
            "dataset:sales.orders",
            {},
            "Permitted: user:ada holds ADMIN on dataset:sales.orders.",
        ),
        (
            "user:ada",
            "READ",
            "dataset:sales.orders",
            {},
            "Denied: user:ada lacks READ on dataset:sales.orders.",
        ),
    ],
)
def test_the_sentence_gives_the_decision_and_its_reason(subject, operation, address, context, sentence):
    assert ask(subject, operation, address, **context).sentence == sentence


def test_the_source_has_the_seed_the_table_and_the_row():
    answer = decision_as_json(ask("user:bob", "get-runtime-args", "program:sales.orders.workflow.daily"))
    assert answer["context"]["source"] == {
        "seed": "002",
        "table": "Programs",
        "row": "Retrieve runtime arguments",
        "note": "WRITE does not count",
    }


def test_each_attempt_has_its_privileges_its_address_and_the_grants_or_missing_grants():
    answer = decision_as_json(
        ask("group:analysts", "start", "program:sales.orders.workflow.daily", generation="core")
    )
    (tree,) = answer["context"]["attempts"]
    met, unmet = tree["parts"]
    assert (met["wanted"], met["where"], met["met"]) == (
        ["EXECUTE"],
        "program:sales.orders.workflow.daily",
        True,
    )
    assert met["grants"] == [
        {
            "principal": "group:analysts",
            "entity": "program:sales.orders.workflow.daily",
            "privilege": "EXECUTE",
        }
    ]
    assert unmet["missing"] == [{"entity": "namespace:sales", "privilege": "READ"}]
    assert answer["context"]["missing"] == unmet["missing"]


def test_alternatives_are_separate_attempts():
    answer = decision_as_json(ask("user:bob", "write", "dataset:sales.orders", generation="existing"))
    assert [attempt["where"] for attempt in answer["context"]["attempts"]] == [
        "dataset:sales.orders",
        "namespace:sales",
    ]


def test_no_grants_are_missing_if_the_question_is_permitted_or_no_grants_would_permit_it():
    for answer in (
        ask("user:ada", "drop", "dataset:sales.orders"),
        ask("user:ada", "get", "dataset:sales.orders", generation="existing"),
        ask("user:zed", "drop", "dataset:sales.orders"),
    ):
        assert "missing" not in decision_as_json(answer)["context"]


def test_no_grants_are_missing_on_another_instance():
    answer = ask("user:bob", "ADMIN", "instance:other")
    assert not answer.is_permitted and answer.missing_grants is None
    assert [address.kind for address, _ in ask("user:bob", "ADMIN", "instance:cdap").missing_grants] == [
        "instance"
    ]


def test_the_missing_grants_of_a_deletion_have_each_live_entity_once():
    missing = decision_as_json(ask("user:bob", "delete", "namespace:sales"))["context"]["missing"]
    assert [grant["entity"] for grant in missing] == [
        "artifact:sales.etl",
        "application:sales.orders",
        "program:sales.orders.workflow.daily",
        "stream:sales.clicks",
        "dataset:sales.orders",
    ]
    assert {grant["privilege"] for grant in missing} == {"ADMIN"}


def test_one_grant_is_missing_where_any_privilege_is_enough():
    answer = ask("user:bob", "create", "dataset:sales.new", dataset_type="dataset_type:sales.custom")
    assert [str(address) for address, _ in answer.missing_grants] == [
        "dataset:sales.new",
        "dataset_type:sales.custom",
    ]
