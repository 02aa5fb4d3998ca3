"""Test the parsing of questions: malformed requests are refused, and unknown names give a question with a
reason.
"""

import pytest

from entities.address import parse_address
from grants.policies.question import QuestionError, question_from_json


def body(**changes):
    members = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "read"},
        "resource": {"type": "dataset", "id": "sales.orders"},
    } | changes
    return {member: value for member, value in members.items() if value is not ...}


def parse(**changes):
    return question_from_json(body(**changes), active_generation="final")


def test_a_question_has_the_active_generation_and_no_explanation_by_default():
    question = parse()
    assert question.target == parse_address("dataset:sales.orders")
    assert (question.principal, question.operation, question.generation) == ("user:alice", "read", "final")
    assert not question.explain


def test_unknown_members_are_ignored():
    assert parse(foo={"nested": [1]}, context={"time": "now"}) == parse()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subject": ...}, "`subject` is missing"),
        ({"subject": "alice"}, "`subject` must be an object"),
        ({"subject": {"id": "alice"}}, "`subject.type` is missing"),
        ({"subject": {"type": "user", "id": 7}}, "`subject.id` must be a string"),
        ({"action": ...}, "`action` is missing"),
        ({"action": {}}, "`action.name` is missing"),
        ({"action": {"name": 123}}, "`action.name` must be a string"),
        ({"resource": ...}, "`resource` is missing"),
        ({"resource": {"type": "dataset"}}, "`resource.id` is missing"),
        ({"resource": {"type": None, "id": "x"}}, "`resource.type` must be a string"),
        ({"context": []}, "`context` must be an object"),
        ({"context": {"explain": "yes"}}, "`context.explain` must be true or false"),
        (
            {"context": {"generation": "newest"}},
            "`context.generation`: `newest` is not a generation of rules",
        ),
        ({"context": {"generation": 4}}, "`context.generation`: `4` is not a generation of rules"),
    ],
)
def test_a_malformed_question_is_refused_with_the_invalid_member(changes, message):
    with pytest.raises(QuestionError) as refused:
        parse(**changes)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("not_an_object", [None, [], "text", 1])
def test_a_question_that_is_not_an_object_is_refused(not_an_object):
    with pytest.raises(QuestionError, match="must be a JSON object"):
        question_from_json(not_an_object, active_generation="final")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"subject": {"type": "robot", "id": "x"}}, "`robot` is not a type of subject"),
        ({"subject": {"type": "user", "id": "a\0b"}}, "names no principal"),
        ({"subject": {"type": "user", "id": "\ud800"}}, "names no principal"),
        ({"resource": {"type": "spaceship", "id": "x"}}, "`spaceship` is not a kind of entity"),
        ({"action": {"name": "fly"}}, "`fly` is not an operation of a dataset"),
        ({"action": {"name": "READ "}}, "`READ ` is not an operation of a dataset"),
        ({"resource": {"type": "dataset", "id": "sales"}}, "`resource.id`: `dataset:sales` lacks a part"),
    ],
)
def test_a_question_with_an_unknown_name_has_a_reason_for_its_denial(changes, reason):
    question = parse(**changes)
    assert question.target is None and reason in question.unknown_reason


def test_only_a_question_with_an_invalid_address_is_malformed():
    assert parse(resource={"type": "dataset", "id": "no dot"}).is_malformed
    assert not parse(resource={"type": "spaceship", "id": "x"}).is_malformed


DEPLOY = {"action": {"name": "deploy"}, "resource": {"type": "application", "id": "sales.app"}}


def test_context_members_that_the_operation_uses_are_parsed():
    question = parse(
        **DEPLOY,
        context={
            "artifact": "Artifact:sales.etl-1.0",
            "artifact_is_new": True,
            "owner": "kerberosprincipal:etl/h@R",
        },
    )
    assert question.artifact == parse_address("artifact:sales.etl-1.0")
    assert question.artifact_is_new and question.owner == parse_address("kerberosprincipal:etl/h@R")


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"artifact": "sales.etl"}, "`context.artifact`: `sales.etl` is not an address"),
        (
            {"artifact": "dataset:sales.etl"},
            "`context.artifact` must be the address of a artifact, not of a dataset",
        ),
        ({"artifact": 7}, "`context.artifact` must be a string"),
        (
            {"artifact": "artifact:sales.a", "artifact_is_new": 1},
            "`context.artifact_is_new` must be true or false",
        ),
    ],
)
def test_a_context_member_that_the_operation_uses_must_be_well_formed(context, message):
    with pytest.raises(QuestionError) as refused:
        parse(**DEPLOY, context=context)
    assert str(refused.value).startswith(message.replace("a artifact", "an artifact"))


@pytest.mark.parametrize("context", [{"artifact": "nonsense"}, {"dataset_type": 5}, {"owner": []}])
def test_a_context_member_that_the_operation_does_not_use_is_ignored(context):
    assert parse(context=context) == parse()


def test_a_generation_without_rules_about_owners_ignores_the_owner():
    assert parse(**DEPLOY, context={"generation": "core", "owner": "nonsense"}).owner is None
