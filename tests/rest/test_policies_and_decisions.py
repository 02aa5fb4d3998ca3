"""The catalogue, the active generation, and decisions with explanations over REST."""

import re
from typing import get_args

import pytest

from authzconsole.rest.policies import NODES
from entities.vocabulary import KINDS, Privilege
from grants.active_generation import active_generation
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import Expression
from tests.rest.conftest import QUESTION, problem
from tests.support.authors import database_state, lines_after

pytestmark = pytest.mark.django_db


def test_the_catalogue_contains_every_operation_of_every_kind_with_its_source(ada):
    for name, generation in GENERATIONS.items():
        content = ada.get(f"/policies/{name}").json()
        rows = {(row["kind"], row["operation"]): row for row in content["policies"]}
        assert set(rows) == {
            (kind.name, operation) for kind in KINDS.values() for operation in kind.operations
        }
        for kind_and_operation, row in rows.items():
            policy = generation.policy(*kind_and_operation)
            assert (row["requires"] is not None) == policy.has_rule == bool(row["words"])
            assert row["source"]["seed"] == policy.source.seed and row["source"]["row"]


@pytest.mark.parametrize(
    ("generation", "kind", "operation", "words", "node"),
    [
        ("final", "dataset", "read", "READ on the entity", "has"),
        ("cdap65", "dataset", "list", "any privilege on its parent", "has"),
        ("cdap65", "system_service", "restart", "EXECUTE on the entity", "has"),
        (
            "final",
            "namespace",
            "list",
            "any privilege on the entity or on anything inside it",
            "has-at-or-below",
        ),
        (
            "final",
            "namespace",
            "delete",
            "ADMIN on the entity and ADMIN on all live entities inside it",
            "all-of",
        ),
        (
            "final",
            "namespace",
            "delete-all-streams",
            "ADMIN on all live streams inside it",
            "has-on-all-live",
        ),
        (
            "final",
            "namespace",
            "create",
            "ADMIN on the entity and if the question names an owner, ADMIN on the owner",
            "all-of",
        ),
    ],
)
def test_a_policy_has_its_requirement_as_a_tree_and_as_text(ada, generation, kind, operation, words, node):
    (row,) = ada.get(f"/policies/{generation}", kind=kind, operation=operation).json()["policies"]
    assert (row["words"], row["requires"]["node"]) == (words, node)


def test_a_generation_maps_platform_permissions_in_both_directions(ada):
    content = ada.get("/policies/cdap65").json()
    rows = {(row["permission"], *row["kinds"]): row for row in content["platform_permissions"]}
    assert rows["STANDARD:GET", "dataset", "securekey"]["privileges"] == ["READ"]
    assert rows["STANDARD:LIST",]["scope"] == "parent"
    assert rows["INSTANCE:TETHER", "instance"]["source"]["row"] == "TETHER"
    given = {(row["kind"], row["privilege"]): row["permissions"] for row in content["given_permissions"]}
    assert given["dataset", "WRITE"] == ["STANDARD:UPDATE"]
    assert set(given) == {(kind, privilege) for kind in KINDS for privilege in Privilege}
    others = [ada.get(f"/policies/{name}").json() for name in GENERATIONS if name != "cdap65"]
    assert all(other["platform_permissions"] == other["given_permissions"] == [] for other in others)


def test_the_generations_are_listed_oldest_first(ada):
    items = ada.get("/policies").json()["items"]
    assert [item["name"] for item in items] == list(GENERATIONS)
    assert [item["name"] for item in items if item["active"]] == ["final"]
    problem(ada.get("/policies/newest"), 404)


def test_changing_the_active_generation_requires_the_current_etag(ada):
    first_read, before = ada.get("/policies/active"), database_state()
    problem(ada.put("/policies/active", {"name": "core"}), 428)
    problem(ada.put("/policies/active", {"name": "newest"}, If_Match="*"), 400)
    assert database_state() == before
    changed = ada.put("/policies/active", {"name": "core", "reason": "because"}, If_Match=first_read["ETag"])
    assert changed.json() == ada.get("/policies/active").json() == {"name": "core"}
    assert lines_after(before[0]) == [("generation-activate", "", "", "", "from final to core")]
    problem(ada.put("/policies/active", {"name": "proposed"}, If_Match=first_read["ETag"]), 412)
    assert active_generation().name == "core"


def test_a_decision_is_always_explained(ada):
    answer = ada.post(
        "/decisions", QUESTION | {"action": {"name": "write"}, "context": {"explain": False}}
    ).json()
    assert answer["decision"] is False
    assert answer["context"]["missing"] == [{"entity": "dataset:sales.orders", "privilege": "WRITE"}]
    assert {"generation", "sentence", "attempts", "source"} <= answer["context"].keys()


def test_a_batch_is_explained_item_by_item_and_keeps_its_semantics(ada):
    denied = {"action": {"name": "write"}, "context": {"generation": "core"}}
    body = QUESTION | {
        "evaluations": [{}, denied, 5, {}],
        "options": {"evaluations_semantic": "deny_on_first_deny"},
    }
    answers = ada.post("/decisions", body).json()["evaluations"]
    assert [answer["decision"] for answer in answers] == [True, False]
    assert [answer["context"]["generation"] for answer in answers] == ["final", "core"]


def test_a_decision_answers_as_authzen_does(ada):
    for operation in ("read", "write", "drop", "nonsense"):
        body = QUESTION | {"action": {"name": operation}}
        explained = body | {"context": {"explain": True}}
        standard = ada.client.post("/access/v1/evaluation", explained, content_type="application/json").json()
        assert ada.post("/decisions", body).json() == standard


STATES = [
    ("sales.orders", "", ""),
    ("sales.legacy", "deleted", "was deleted"),
    ("sales.forecast", "planned", "is only planned"),
    ("sales.nothing", "not registered", "is not registered"),
]


@pytest.mark.parametrize(("key", "state", "words"), STATES)
def test_an_explanation_names_the_state_of_an_entity_that_is_not_live(by_token, key, state, words):
    body = QUESTION | {"resource": {"type": "dataset", "id": key}, "action": {"name": "write"}}
    token = by_token("ada", "decide")
    context = token.post("/decisions", body).json()["context"]
    assert context.get("state", "") == state
    assert context["sentence"].endswith(
        f"; dataset:{key} {words}." if state else "lacks WRITE on dataset:sales.orders."
    )
    batch = token.post("/decisions", body | {"evaluations": [{}, {"resource": QUESTION["resource"]}]}).json()[
        "evaluations"
    ]
    assert [answer["context"].get("state", "") for answer in batch] == [state, ""]
    plain = token.client.post(
        "/access/v1/evaluation", body, content_type="application/json", headers=token.headers
    ).json()
    assert "context" not in plain


def test_the_state_of_an_entity_does_not_change_a_decision(ada):
    answer = ada.post(
        "/decisions",
        QUESTION | {"resource": {"type": "dataset", "id": "sales.legacy"}, "action": {"name": "write"}},
    ).json()
    assert answer["decision"] is True
    assert answer["context"]["sentence"] == (
        "Permitted: user:dee holds WRITE on dataset:sales.legacy; dataset:sales.legacy was deleted."
    )


def test_an_explanation_shows_an_ordinary_account_only_states_of_visible_entities(by_session):
    """dee holds WRITE on the deleted dataset; the answers do not reveal whether the others are registered."""
    evaluations = [
        {"resource": {"type": "dataset", "id": key}}
        for key in ("sales.legacy", "sales.forecast", "sales.nothing", "hr.salaries", "hr.nothing")
    ]
    answers = (
        by_session("dee").post("/decisions", QUESTION | {"evaluations": evaluations}).json()["evaluations"]
    )
    assert [answer["context"].get("state", "") for answer in answers] == ["deleted", "", "", "", ""]
    assert not any(
        "registered" in answer["context"]["sentence"] or "planned" in answer["context"]["sentence"]
        for answer in answers
    )


@pytest.mark.parametrize(
    ("member", "changes"),
    [
        ("subject", {"subject": 5}),
        ("subject.id", {"subject": {"type": "user"}}),
        ("context", {"context": 5}),
        ("context.generation", {"context": {"generation": "newest"}}),
        ("evaluations", {"evaluations": {}}),
        ("options.evaluations_semantic", {"evaluations": [{}], "options": {"evaluations_semantic": "x"}}),
    ],
)
def test_an_invalid_question_names_the_member(ada, member, changes):
    (error,) = problem(ada.post("/decisions", QUESTION | changes), 400)["errors"]
    assert error["field"] == member and error["message"] and "`" + member not in error["message"]


def test_an_unknown_generation_is_refused_with_the_valid_names(ada):
    assert problem(ada.get("/policies/newest"), 404)["detail"].endswith(
        f"the generations are {', '.join(GENERATIONS)}"
    )


def test_the_document_lists_every_node_of_the_grammar():
    names = {re.sub(r"(?<!^)(?=[A-Z])", "-", node.__name__).lower() for node in get_args(Expression)}
    assert set(NODES) == names
