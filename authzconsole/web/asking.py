"""May X do Y here, and why: the question from the URL, the answer with its tree."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.answers import MOST_GAPS, Answer, answer_of
from authzconsole.web.paging import url_with
from authzconsole.web.parameters import text_of
from authzconsole.web.seen_inside import seen_inside
from authzconsole.web.surveys import Glance, glances, is_operation
from entities.address import Address
from entities.models import Entity
from entities.vocabulary import KINDS, Privilege, clip
from grants.engine import check_in_short
from grants.errors import PrincipalError
from grants.names import principal_parts
from grants.plans.making import MOST_ITEMS
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation
from grants.policies.question import Question, QuestionError, members_read, question_from_json

FIELDS = ("subject", "operation", "generation", "artifact", "artifact_is_new", "dataset_type", "owner")


@dataclass(frozen=True, slots=True)
class Member:
    """A further field that the chosen operation's rule reads."""

    name: str
    label: str
    placeholder: str
    value: str
    is_flag: bool = False


_LABELS = {
    "artifact": ("From the artifact", "artifact:NAMESPACE.NAME"),
    "artifact_is_new": ("The artifact is new", ""),
    "dataset_type": ("With the custom dataset type", "dataset_type:NAMESPACE.NAME"),
    "owner": ("Owned by the kerberos principal", "kerberosprincipal:NAME"),
}


def ask_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    """The form as it was filled in, and the answer once a subject and an operation are chosen."""
    address = entity.address
    given = {name: text_of(request, name) for name in FIELDS}
    if not request.user.may_see_all:
        given["subject"] = f"user:{request.user.username}"
    chosen = given["generation"] if given["generation"] in GENERATIONS else generation.name
    answer, each, elsewhere, fault = None, [], [], ""
    try:
        if given["subject"] and given["operation"]:
            answer, elsewhere = _answered(request, entity, given, generation), _elsewhere(request, address, given, chosen)
        elif given["subject"]:
            each = _each(request, address, given, chosen)
    except (QuestionError, PrincipalError) as error:
        fault = str(error)
    return {
        "subject": given["subject"], "subject_is_fixed": not request.user.may_see_all, "operation": given["operation"],
        "operations": KINDS[address.kind].operations, "privileges": list(Privilege), "generation": chosen,
        "generations": [(g.name, g.title) for g in GENERATIONS.values()], "active": generation.name,
        "members": _members(chosen, address.kind, given), "answer": answer, "fault": fault,
        "each": each, "permitted": sum(glance.allowed for glance in each), "elsewhere": elsewhere,
        "plan_fields": [(name, given[name]) for name in FIELDS if given[name]] if answer and answer.missing else [],
        "plan_by_kind_url": _plan_by_kind_url(answer, address) if answer else "", "most_items": MOST_ITEMS,
        "asked_url": settings.PUBLIC_URL + request.get_full_path() if answer else "",
    }


def _answered(request, entity: Entity, given: dict, generation: Generation) -> Answer:
    question = question_of(entity.address, given, generation)
    return answer_of(check_in_short(question, MOST_GAPS), request.user, lambda: seen_inside(request, entity, generation))


def _plan_by_kind_url(answer: Answer, address: Address) -> str:
    """Where the same is granted a few kinds at a time, once one plan cannot hold all that is missing; empty where it can."""
    if len(answer.missing) + answer.missing_more <= MOST_ITEMS:
        return ""
    query = {"within": address, "principal": answer.decision.question.principal, "privilege": answer.missing[-1].privilege}
    return f"{reverse('plan-many')}?{urlencode(query, safe=':')}"


def _each(request: HttpRequest, address: Address, given: dict, chosen: str) -> list[Glance]:
    """Every operation of the kind, for the subject and in the generation that are chosen."""
    asked = [(operation, question_of(address, given | {"operation": operation, "generation": chosen}, GENERATIONS[chosen]),
              url_with(request, operation=operation)) for operation in KINDS[address.kind].operations]
    return glances(asked)


def _elsewhere(request: HttpRequest, address: Address, given: dict, chosen: str) -> list[Glance]:
    """The same question in every generation; nothing where all say the same by nature."""
    if not is_operation(address.kind, given["operation"]):
        return []
    asked = [(name, question_of(address, given | {"generation": name}, generation), url_with(request, generation=name))
             for name, generation in GENERATIONS.items()]
    return glances(asked, current=chosen)


def question_of(address: Address, given: dict, generation: Generation) -> Question:
    """Raises QuestionError or PrincipalError naming the field at fault. A subject without a type is a user."""
    subject = given["subject"] if ":" in given["subject"] else f"user:{given['subject']}"
    type_, name = principal_parts(subject)
    context = {member: given[member] for member in FIELDS[2:] if given.get(member)}
    if "artifact_is_new" in context:
        context["artifact_is_new"] = True
    return question_from_json(
        {"subject": {"type": type_, "id": name}, "action": {"name": given["operation"]}, "context": context,
         "resource": {"type": address.kind, "id": address.key}},
        active_generation=generation.name,
    )


def _members(generation: str, kind: str, given: dict) -> list[Member]:
    return [Member(name, *_LABELS[name], clip(given[name], 600), name == "artifact_is_new")
            for name in members_read(generation, kind, given["operation"])]
