"""Reading a question from its wire form: strict in shape, lenient in what it does not know."""

import pytest

from entities.address import parse_address
from grants.policies.question import QuestionError, question_from_json


def body(**changes):
    asked = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "read"},
        "resource": {"type": "dataset", "id": "sales.orders"},
    } | changes
    return {member: value for member, value in asked.items() if value is not ...}


def read(**changes):
    return question_from_json(body(**changes), active_generation="final")


def test_a_question_is_read_with_the_active_generation_and_without_explanation():
    question = read()
    assert question.target == parse_address("dataset:sales.orders")
    assert (question.principal, question.operation, question.generation) == ("user:alice", "read", "final")
    assert not question.explain


def test_unknown_members_are_ignored():
    assert read(foo={"nested": [1]}, context={"time": "now"}) == read()


@pytest.mark.parametrize(("changes", "message"), [
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
    ({"context": {"generation": "newest"}}, "`context.generation`: `newest` is not a generation of rules"),
    ({"context": {"generation": 4}}, "`context.generation`: `4` is not a generation of rules"),
])
def test_a_malformed_question_is_refused_with_the_member_at_fault(changes, message):
    with pytest.raises(QuestionError) as refused:
        read(**changes)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("not_an_object", [None, [], "text", 1])
def test_a_question_that_is_no_object_is_refused(not_an_object):
    with pytest.raises(QuestionError, match="must be a JSON object"):
        question_from_json(not_an_object, active_generation="final")


@pytest.mark.parametrize(("changes", "reason"), [
    ({"subject": {"type": "robot", "id": "x"}}, "`robot` is not a type of subject"),
    ({"subject": {"type": "user", "id": "a\0b"}}, "names no principal"),
    ({"subject": {"type": "user", "id": "\ud800"}}, "names no principal"),
    ({"resource": {"type": "spaceship", "id": "x"}}, "`spaceship` is not a kind of entity"),
    ({"action": {"name": "fly"}}, "`fly` is not an operation of a dataset"),
    ({"action": {"name": "READ "}}, "`READ ` is not an operation of a dataset"),
    ({"resource": {"type": "dataset", "id": "sales"}}, "`resource.id`: `dataset:sales` lacks a part"),
])
def test_something_unknown_is_a_question_that_carries_the_reason_of_its_denial(changes, reason):
    question = read(**changes)
    assert question.target is None and reason in question.unknown_reason


def test_only_an_ill_formed_address_is_broken():
    assert read(resource={"type": "dataset", "id": "no dot"}).is_malformed
    assert not read(resource={"type": "spaceship", "id": "x"}).is_malformed


DEPLOY = {"action": {"name": "deploy"}, "resource": {"type": "application", "id": "sales.app"}}


def test_members_that_the_operation_reads_become_addresses():
    question = read(**DEPLOY, context={"artifact": "Artifact:sales.etl-1.0", "artifact_is_new": True,
                                       "owner": "kerberosprincipal:etl/h@R"})
    assert question.artifact == parse_address("artifact:sales.etl-1.0")
    assert question.artifact_is_new and question.owner == parse_address("kerberosprincipal:etl/h@R")


@pytest.mark.parametrize(("context", "message"), [
    ({"artifact": "sales.etl"}, "`context.artifact`: `sales.etl` is not an address"),
    ({"artifact": "dataset:sales.etl"}, "`context.artifact` must be the address of a artifact, not of a dataset"),
    ({"artifact": 7}, "`context.artifact` must be a string"),
    ({"artifact": "artifact:sales.a", "artifact_is_new": 1}, "`context.artifact_is_new` must be true or false"),
])
def test_a_member_that_the_operation_reads_must_be_well_formed(context, message):
    with pytest.raises(QuestionError) as refused:
        read(**DEPLOY, context=context)
    assert str(refused.value).startswith(message.replace("a artifact", "an artifact"))


@pytest.mark.parametrize("context", [{"artifact": "nonsense"}, {"dataset_type": 5}, {"owner": []}])
def test_a_member_that_the_operation_does_not_read_changes_nothing(context):
    assert read(context=context) == read()


def test_a_generation_without_owner_principals_does_not_read_the_owner():
    assert read(**DEPLOY, context={"generation": "core", "owner": "nonsense"}).owner is None
