"""May X do Y here, and why: the question from the URL, the answer with its tree."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.ask.answer_summaries import Glance, glances, is_operation
from authzconsole.web.ask.answers import MOST_GAPS, Answer, answer_of, answers_of
from authzconsole.web.shared.paging import url_with, url_with_query
from authzconsole.web.shared.parameters import MAX_CHARACTERS, name_parameter, text_parameter
from authzconsole.web.shared.principal_input import principal_from_input, unknown_principal_in, with_default_type
from authzconsole.web.shared.request_visibility import visibility_inside
from entities.address import Address
from entities.models import Entity
from entities.vocabulary import KINDS, Privilege, clip
from grants.errors import PrincipalError
from grants.evaluation.engine import check_generations_summary, check_summary
from grants.plans.create import MAX_PLAN_ITEMS
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation
from grants.policies.question import Question, QuestionError, context_members, question_from_json
from grants.principal_names import parse_principal

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


@dataclass(frozen=True, slots=True)
class Beside:
    """The whole answer of one generation, and the URL of the same question in it."""

    name: str
    answer: Answer
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What a URL asks about an entity. given: its fields as they were filled in. chosen: the name of the generation.

    active: the one that decides what this account sees.
    """

    request: HttpRequest
    entity: Entity
    active: Generation
    given: dict
    chosen: str

    def question(self, **changed: str) -> Question:
        """Raises as `question_from_input`."""
        return question_from_input(self.entity.address, self.given | changed, self.active)

    def seen(self):
        return visibility_inside(self.request, self.entity, self.active)


def ask_section(request: HttpRequest, entity: Entity, generation: Generation, *, whole: bool = False) -> dict:
    """The form as it was filled in, and the answer once a subject and an operation are chosen.

    whole: for a page that is nothing else, with the answers of all generations in full.
    """
    given = question_input(request)
    if not request.user.can_see_all:
        given["subject"] = f"user:{request.user.username}"
    chosen = given["generation"] if given["generation"] in GENERATIONS else generation.name
    asked = Asked(request, entity, generation, given, chosen)
    try:
        found = _found(asked, whole)
    except (QuestionError, PrincipalError) as error:
        found = {"fault": str(error), "faulty": "subject" if isinstance(error, PrincipalError) else ""}
    answer, permitted = found.get("answer"), sum(glance.allowed for glance in found.get("each", ()))
    return {
        "answer": None, "each": [], "elsewhere": [], "beside": [], "unknown_principal": None, "fault": "", "faulty": "", **found,
        "subject": given["subject"], "subject_is_fixed": not request.user.can_see_all, "operation": given["operation"],
        "operations": KINDS[entity.kind].operations, "privileges": list(Privilege), "generation": chosen,
        "generations": [(g.name, g.title) for g in GENERATIONS.values()], "active": generation.name,
        "members": _members(chosen, entity.kind, given), "others": list(_others(request)),
        "permitted": permitted, "said": _said(found, permitted),
        "plan_fields": [(name, given[name]) for name in FIELDS if given[name]] if answer and answer.missing else [],
        "plan_by_kind_url": _plan_by_kind_url(answer, entity.address) if answer else "", "most_items": MAX_PLAN_ITEMS,
        "open_url": _open_url(asked),
        "asked_url": settings.PUBLIC_URL + (_open_url(asked) if whole else request.get_full_path()) if answer else "",
    }


def _said(found: dict, permitted: int) -> str:
    """What whoever does not see the page is told when its answer comes."""
    if found.get("answer"):
        return found["answer"].decision.sentence
    each = found.get("each", ())
    return f"{permitted} of {len(each)} operations are allowed." if each else ""


def _found(asked: Asked, whole: bool) -> dict:
    """The answer or the answers; of a subject that there is not only whom it may have meant."""
    if not asked.given["subject"]:
        return {}
    if not asked.given["operation"]:
        each = _each(asked)
        found, may_be_unknown = {"each": each}, not any(glance.allowed for glance in each)
    else:
        found = _beside(asked) if whole and is_operation(asked.entity.kind, asked.given["operation"]) else _answered(asked)
        may_be_unknown = bool(found["answer"].decision.reason)
    unknown = unknown_principal_in(asked.request, asked.given["subject"]) if may_be_unknown else None
    return {"unknown_principal": unknown} if unknown else found


def _answered(asked: Asked) -> dict:
    answer = answer_of(check_summary(asked.question(), MOST_GAPS), asked.request.user, asked.seen)
    return {"answer": answer, "elsewhere": _elsewhere(asked)}


def _beside(asked: Asked) -> dict:
    """The question in every generation, and of the chosen one the answer."""
    asked.question()  # refuses what only the URL's own generation refuses
    decisions = check_generations_summary([asked.question(generation=name) for name in GENERATIONS], MOST_GAPS)
    answers = dict(zip(GENERATIONS, answers_of(decisions, asked.request.user, asked.seen), strict=True))
    return {"answer": answers[asked.chosen], "beside": [
        Beside(name, answer, _open_url(asked, generation=name), name == asked.chosen) for name, answer in answers.items()]}


def _plan_by_kind_url(answer: Answer, address: Address) -> str:
    """Where the same is granted a few kinds at a time, once one plan cannot hold all that is missing; empty where it can."""
    if answer.missing_total <= MAX_PLAN_ITEMS:
        return ""
    query = {"within": address, "principal": answer.decision.question.principal, "privilege": answer.missing[-1].privilege}
    return f"{reverse('plan-many')}?{urlencode(query, safe=':')}"


def _open_url(asked: Asked, generation: str = "") -> str:
    """The question by itself, which says its generation also where it is the active one now."""
    query = asked.given | {"subject": with_default_type(asked.given["subject"]), "entity": asked.entity,
                           "generation": generation or asked.chosen}
    return url_with_query("ask", query)


def _others(request: HttpRequest) -> Iterable[tuple[str, str]]:
    """What the URL says of the other parts of the page: asking leaves them as they are. Only administrators choose entities."""
    for name, values in request.GET.lists():
        if name not in FIELDS and (name != "address" or request.user.can_administer):
            yield from ((name, value) for value in values)


def _each(asked: Asked) -> list[Glance]:
    """Every operation of the kind, for the subject and in the generation that are chosen."""
    return glances([(operation, asked.question(operation=operation, generation=asked.chosen),
                     url_with(asked.request, operation=operation)) for operation in KINDS[asked.entity.kind].operations])


def _elsewhere(asked: Asked) -> list[Glance]:
    """The same question in every generation; nothing where all say the same by nature."""
    if not is_operation(asked.entity.kind, asked.given["operation"]):
        return []
    return glances([(name, asked.question(generation=name), url_with(asked.request, generation=name)) for name in GENERATIONS],
                   current=asked.chosen)


def question_input(request: HttpRequest) -> dict[str, str]:
    """The question as the URL writes it, by field."""
    subject = principal_from_input(name_parameter(request, "subject"))[:MAX_CHARACTERS]
    return {name: text_parameter(request, name) for name in FIELDS} | {"subject": subject}


def question_from_input(address: Address, given: dict, generation: Generation) -> Question:
    """Raises QuestionError or PrincipalError naming the field at fault."""
    type_, name = parse_principal(with_default_type(given["subject"]))
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
            for name in context_members(generation, kind, given["operation"])]
