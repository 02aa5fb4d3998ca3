"""Parse questions: may this subject perform this operation on this target?

Questions have the form of the AuthZEN Authorization API 1.0. A malformed question raises `QuestionError`. A
well-formed question about an unknown kind, operation or subject type is parsed, and its `unknown_reason` says
why it is denied.
"""

from functools import cache
from typing import Any

from entities.address import Address, AddressError, address_of, instance_address, parse_address
from entities.errors import Refusal
from entities.frozen import frozen
from entities.text import is_storable
from entities.vocabulary import KINDS, Privilege, clip, with_article
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.grammar import FactsRead, Parameter, Scope
from grants.policies.policy import Policy
from grants.policies.principals import ROLE_PREFIX, principal_text, stored_subject
from grants.policies.times import TimeError, parse_time

SUBJECT_TYPES = ("user", "group", "role")


class QuestionError(Refusal, ValueError):
    """The question is malformed. The message names the invalid member."""


@frozen
class Question:
    """May `subject` perform `operation` on `target` under the rules of `generation`?

    subject_type, subject: `user` or `group`, and a name.
    target: None if the subject type, kind or operation is unknown or the address is invalid. `unknown_reason`
    then gives the reason, and `is_malformed` is true for an invalid address.
    artifact, artifact_is_new, dataset_type, owner: the parameters on which some rules depend.
    """

    subject_type: str
    subject: str
    operation: str
    target: Address | None
    generation: str
    artifact: Address | None = None
    artifact_is_new: bool = False
    dataset_type: Address | None = None
    owner: Address | None = None
    explain: bool = False
    unknown_reason: str = ""
    is_malformed: bool = False

    @property
    def principal(self) -> str:
        return principal_text(self.subject_type, self.subject)

    @property
    def known_target(self) -> Address:
        """The target of a question without `unknown_reason`."""
        assert self.target is not None, self.unknown_reason
        return self.target

    @property
    def policy(self) -> Policy | None:
        if self.target is None:
            return None
        return generation_by_name(self.generation).policy(self.target.kind, self.operation)

    def address_at(self, scope: Scope) -> Address | None:
        """Return the address at `scope`; None if the question names no such address."""
        match scope:
            case Scope.SELF:
                return self.target
            case Scope.PARENT:
                return self.known_target.parent
            case Scope.NAMESPACE:
                return self.known_target.namespace
            case Scope.APPLICATION:
                return self.known_target.application
            case Scope.INSTANCE:
                return instance_address()
            case Scope.ARTIFACT:
                return self.artifact
            case Scope.DATASET_TYPE:
                return self.dataset_type
            case Scope.OWNER:
                return self.owner

    def has_parameter(self, parameter: Parameter) -> bool:
        """Return whether the question names `parameter`."""
        match parameter:
            case Parameter.NEW_ARTIFACT:
                return self.artifact is not None and self.artifact_is_new
            case Parameter.EXISTING_ARTIFACT:
                return self.artifact is not None and not self.artifact_is_new
            case Parameter.DATASET_TYPE:
                return self.dataset_type is not None
            case Parameter.OWNER:
                return self.owner is not None


def question_from_json(body: object, *, active_generation: str, is_search: bool = False) -> Question:
    """Parse an evaluation request. Unknown members are ignored. Raise QuestionError if it is malformed.

    is_search: the question is about all entities of the resource's type. `resource.id` is then ignored, and
        the key of `target` is empty.
    """
    if not isinstance(body, dict):
        raise QuestionError("the request must be a JSON object")
    written_type, subject_id = _pair(body, "subject", "type", "id")
    subject_type, subject = stored_subject(written_type, subject_id)
    operation = _text(_object(body, "action"), "action", "name")
    resource = _object(body, "resource")
    kind, key = _text(resource, "resource", "type"), None if is_search else _text(resource, "resource", "id")
    context = body.get("context", {})
    if not isinstance(context, dict):
        raise QuestionError("`context` must be an object")
    generation = _generation(context, active_generation)
    explain = _flag(context, "explain")
    if "at" in context:
        _check_time(context)
    target, unknown_reason, is_malformed = _target(written_type, subject_id, kind, key, operation)
    if target is None:
        return Question(
            subject_type,
            subject,
            operation,
            None,
            generation,
            explain=explain,
            unknown_reason=unknown_reason,
            is_malformed=is_malformed,
        )
    return Question(
        subject_type,
        subject,
        operation,
        target,
        generation,
        explain=explain,
        **_parameters(context, generation, target.kind, operation),
    )


def _target(
    subject_type: str, subject: str, kind: str, key: str | None, operation: str
) -> tuple[Address | None, str, bool]:
    """Return (address, reason why there is none, whether the address is malformed).

    key: None if the question is about all entities of the kind.
    """
    if not is_storable(subject):
        return (
            None,
            f"`{clip(subject)}` names no principal: it contains a character that no name can contain",
            False,
        )
    if subject_type not in SUBJECT_TYPES:
        return (
            None,
            f"`{clip(subject_type)}` is not a type of subject; the types are user, group and role",
            False,
        )
    if subject_type == "group" and subject.startswith(ROLE_PREFIX):
        return None, f"`{clip(subject)}` is a role: its type is role", False
    known_kind = KINDS.get(kind.lower()) if kind.isascii() else None
    if known_kind is None:
        return None, f"`{clip(kind)}` is not a kind of entity; the kinds are {', '.join(KINDS)}", False
    if operation not in known_kind.operations and operation not in Privilege.__members__:
        operations = ", ".join(known_kind.operations) or "none"
        kind_title = with_article(known_kind.title)
        return (
            None,
            f"`{clip(operation)}` is not an operation of {kind_title}; its operations are {operations}",
            False,
        )
    if key is None:
        return Address(known_kind.name, ""), "", False
    try:
        return address_of(known_kind.name, key), "", False
    except AddressError as error:
        return None, f"`resource.id`: {error}", True


_MEMBERS_OF_PARAMETER = {
    Parameter.NEW_ARTIFACT: ("artifact", "artifact_is_new"),
    Parameter.EXISTING_ARTIFACT: ("artifact", "artifact_is_new"),
    Parameter.DATASET_TYPE: ("dataset_type",),
    Parameter.OWNER: ("owner",),
}
_KIND_OF_MEMBER = {"artifact": "artifact", "dataset_type": "dataset_type", "owner": "kerberosprincipal"}


@cache
def context_members(generation: str, kind: str, operation: str) -> tuple[str, ...]:
    """Return the members of `context` that the rule reads.

    All other members are ignored, even if they are malformed.
    """
    policy = generation_by_name(generation).policy(kind, operation)
    parameters = FactsRead(policy.requirement).parameters if policy else ()
    members = (member for parameter in parameters for member in _MEMBERS_OF_PARAMETER[parameter])
    return tuple(dict.fromkeys(members))


def _parameters(context: dict[str, Any], generation: str, kind: str, operation: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for member in context_members(generation, kind, operation):
        if context.get(member) is None:
            continue
        values[member] = _flag(context, member) if member == "artifact_is_new" else _address(context, member)
    return values


def _address(context: dict[str, Any], member: str) -> Address:
    text = _text(context, "context", member)
    try:
        address = parse_address(text)
    except AddressError as error:
        raise QuestionError(f"`context.{member}`: {error}") from None
    if address.kind != _KIND_OF_MEMBER[member]:
        raise QuestionError(
            f"`context.{member}` must be the address of {with_article(KINDS[_KIND_OF_MEMBER[member]].title)}, "
            f"not of {with_article(KINDS[address.kind].title)}"
        )
    return address


def _generation(context: dict[str, Any], active_generation: str) -> str:
    name = context.get("generation")
    if name is None:
        return active_generation
    try:
        return generation_by_name(name).name
    except UnknownGeneration as error:
        raise QuestionError(f"`context.generation`: {error}") from None


def _check_time(context: dict[str, Any]) -> None:
    """Check the time that the question is about.

    Evaluators read it from the thread (`grants.validity.at_time`).
    """
    try:
        parse_time(context["at"])
    except TimeError as error:
        raise QuestionError(f"`context.at`: {error}") from None


def _pair(body: dict[str, Any], member: str, first: str, second: str) -> tuple[str, str]:
    value = _object(body, member)
    return _text(value, member, first), _text(value, member, second)


def _object(body: dict[str, Any], member: str) -> dict[str, Any]:
    if member not in body:
        raise QuestionError(f"`{member}` is missing")
    if not isinstance(body[member], dict):
        raise QuestionError(f"`{member}` must be an object")
    value: dict[str, Any] = body[member]
    if not isinstance(value.get("properties", {}), dict):
        raise QuestionError(f"`{member}.properties` must be an object")
    return value


def _text(container: dict[str, Any], path: str, member: str) -> str:
    if member not in container:
        raise QuestionError(f"`{path}.{member}` is missing")
    text = container[member]
    if not isinstance(text, str):
        raise QuestionError(f"`{path}.{member}` must be a string")
    return text


def _flag(context: dict[str, Any], member: str) -> bool:
    value = context.get(member, False)
    if not isinstance(value, bool):
        raise QuestionError(f"`context.{member}` must be true or false")
    return value
