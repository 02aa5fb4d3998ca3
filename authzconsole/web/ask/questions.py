"""Read a question from the URL and answer it: is this principal permitted this operation on this entity, and
why.
"""

from collections.abc import Iterable, Sequence

from django.conf import settings
from django.http import HttpRequest

from authzconsole.web.ask.answers import (
    MAX_MISSING_GRANTS,
    answer_summaries,
    answers_for_display,
    is_operation,
    missing_total,
)
from authzconsole.web.forms import ConsoleForm, PrincipalField, TextField
from authzconsole.web.shared.levels import operations_in_groups
from authzconsole.web.shared.paging import url_with, url_with_query
from authzconsole.web.shared.parameters import MAX_CHARACTERS
from authzconsole.web.shared.past import as_of_for_links, at_for_links
from authzconsole.web.shared.principal_input import (
    unknown_principal_in,
    with_default_type,
)
from authzconsole.web.shared.visible_entities import visibility_inside
from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity
from entities.vocabulary import KINDS, Privilege, clip
from grants.errors import PrincipalError
from grants.evaluation.engine import check_generations_summary, check_summary
from grants.evaluation.inactive_grants import with_inactive_grants
from grants.evaluation.remarks import with_remarks
from grants.evaluation.visibility import Visibility
from grants.models import Plan
from grants.plans.apply import applied_plan
from grants.plans.create import MAX_PLAN_ITEMS, PlanOrigin
from grants.policies.catalogue import GENERATIONS
from grants.policies.explain import Decision
from grants.policies.policy import Generation
from grants.policies.question import Question, QuestionError, context_members, question_from_json
from grants.principal_names import parse_principal

FIELDS = ("subject", "operation", "generation", "artifact", "artifact_is_new", "dataset_type", "owner")


class QuestionInputForm(ConsoleForm):
    """The fields of a question. The names of principals may begin or end with a space."""

    subject = PrincipalField()
    operation = TextField()
    generation = TextField()
    artifact = TextField()
    artifact_is_new = TextField()
    dataset_type = TextField()
    owner = TextField()


CONTEXT_FIELDS = {
    "artifact": {"label": "Artifact", "placeholder": "artifact:NAMESPACE.NAME"},
    "artifact_is_new": {"label": "The artifact is new", "is_flag": True},
    "dataset_type": {"label": "Custom dataset type", "placeholder": "dataset_type:NAMESPACE.NAME"},
    "owner": {"label": "Owner", "placeholder": "kerberosprincipal:NAME"},
}


@frozen
class QuestionForm:
    """The form of a question about an entity.

    active: the active generation, which determines the entities that the account can see.
    fields: the submitted text of each form field. generation_name: the generation selected in the form.
    """

    request: HttpRequest
    entity: Entity
    active: Generation
    fields: dict
    generation_name: str

    def question(self, **changes: str) -> Question:
        """Return the question with some fields changed. Raise the errors of `question_from_input`."""
        return question_from_input(self.entity.address, self.fields | changes, self.active)

    def visibility(self) -> Visibility:
        return visibility_inside(self.request, self.entity, self.active)


def ask_section(
    request: HttpRequest, entity: Entity, generation: Generation, *, is_whole_page: bool = False
) -> dict:
    """Return the context of the section: the form with its input, and the answer to its question.

    If no operation is selected, the section shows a one-line answer for each operation. Without a subject, it
    has no answer.
    is_whole_page: for the Ask page, which shows the full answers of all generations.
    """
    fields = question_input(request)
    other_subject = _other_subject(request, fields["subject"])
    if not request.user.can_see_all:
        fields["subject"] = f"user:{request.user.username}"
    generation_name = fields["generation"] if fields["generation"] in GENERATIONS else generation.name
    form = QuestionForm(request, entity, generation, fields, generation_name)
    try:
        result = {} if other_subject else _result(form, is_whole_page)
    except (QuestionError, PrincipalError) as error:
        result = {
            "fault": str(error),
            "invalid_field": "subject" if isinstance(error, PrincipalError) else "",
        }
    answer, permitted = (
        result.get("answer"),
        sum(row["is_permitted"] for row in result.get("operation_answers", ())),
    )
    missing = (answer.missing_grants or ())[:MAX_MISSING_GRANTS] if answer else ()
    ask_page_url = _question_url(form)
    return {
        **form_context(request, fields, generation),
        "answer": None,
        "operation_answers": [],
        "generation_summaries": [],
        "generation_answers": [],
        "unknown_principal": None,
        "fault": "",
        "invalid_field": "",
        **result,
        "other_subject": other_subject,
        "own_question_url": url_with(request, subject=None) if other_subject else "",
        "operations": operations_in_groups(GENERATIONS[generation_name], entity.kind),
        "context_fields": _context_fields(generation_name, entity.kind, fields),
        "other_parameters": list(_other_parameters(request)),
        "permitted": permitted,
        "answer_groups": _answer_groups(form, result.get("operation_answers", ())),
        "announcement": _announcement(result, permitted),
        "missing": missing,
        "missing_more": missing_total(answer) - len(missing) if answer else 0,
        "plan_fields": [(name, fields[name]) for name in FIELDS if fields[name]],
        "needs_plan_by_kind": answer is not None and missing_total(answer) > MAX_PLAN_ITEMS,
        "max_items": MAX_PLAN_ITEMS,
        "plan": _applied_plan(answer) if answer and request.user.can_see_all else None,
        "ask_page_url": ask_page_url,
        "request_url": _request_url(form) if answer and not answer.is_permitted else "",
        "permalink": settings.PUBLIC_URL + (ask_page_url if is_whole_page else request.get_full_path())
        if answer
        else "",
    }


def _applied_plan(answer: Decision) -> Plan | None:
    """Return the plan that was applied to permit what the question asks about."""
    question = answer.question
    return applied_plan(
        PlanOrigin.CHANGE_SET,
        subject=question.principal,
        operation=question.operation,
        entity=str(question.target),
    )


def form_context(request: HttpRequest, fields: dict, active: Generation) -> dict:
    """Return the context of the fields of the form. active: the active generation."""
    return {
        "subject": fields["subject"],
        "subject_is_fixed": not request.user.can_see_all,
        "operation": fields["operation"],
        "privileges": list(Privilege),
        "generation": fields["generation"] if fields["generation"] in GENERATIONS else active.name,
        "generations": list(GENERATIONS),
        "active": active.name,
    }


def _request_url(form: QuestionForm) -> str:
    """Return the URL that requests the denied access; empty if the answer is about another user, generation
    or time.
    """
    is_own = form.fields["subject"] == f"user:{form.request.user.username}"
    if (
        not is_own
        or form.generation_name != form.active.name
        or getattr(form.request, "past", None) is not None
    ):
        return ""
    return url_with_query("request-new", {"entity": form.entity, "operation": form.fields["operation"]})


def _other_subject(request: HttpRequest, subject: str) -> str:
    """Return the subject in the URL if an ordinary account may not ask about it: every principal except the
    account itself.

    Such a link is not answered, because an answer about the account itself would be mistaken for one about
    the subject.
    """
    is_own = with_default_type(subject) in ("", f"user:{request.user.username}")
    return "" if request.user.can_see_all or is_own else clip(subject)


def _announcement(result: dict, permitted: int) -> str:
    """Return the text that screen readers announce when htmx has loaded the answer."""
    if result.get("answer"):
        return result["answer"].sentence
    summaries = result.get("operation_answers", ())
    return f"{permitted} of {len(summaries)} operations are permitted." if summaries else ""


def _result(form: QuestionForm, is_whole_page: bool) -> dict:
    """Return the answers as context variables; for an unknown subject, only suggestions of similar
    principals.
    """
    if not form.fields["subject"]:
        return {}
    if not form.fields["operation"]:
        summaries = _operation_answers(form)
        result, may_be_unknown = (
            {"operation_answers": summaries},
            not any(row["is_permitted"] for row in summaries),
        )
    else:
        has_all_generations = is_whole_page and is_operation(form.entity.kind, form.fields["operation"])
        result = _all_generation_answers(form) if has_all_generations else _single_answer(form)
        may_be_unknown = bool(result["answer"].reason)
    unknown = unknown_principal_in(form.request, form.fields["subject"]) if may_be_unknown else None
    return {"unknown_principal": unknown} if unknown else result


def _single_answer(form: QuestionForm) -> dict:
    (decision,) = with_remarks(with_inactive_grants([check_summary(form.question(), MAX_MISSING_GRANTS)]))
    (answer,) = answers_for_display([decision], form.request.user, form.visibility)
    return {
        "answer": answer,
        "generation_summaries": _generation_summaries(form),
    }


def _all_generation_answers(form: QuestionForm) -> dict:
    """Return the full answer of every generation, and the one of the selected generation as `answer`."""
    form.question()  # raises errors that only the submitted generation causes
    questions = [form.question(generation=name) for name in GENERATIONS]
    decisions = with_remarks(with_inactive_grants(check_generations_summary(questions, MAX_MISSING_GRANTS)))
    answers = dict(
        zip(GENERATIONS, answers_for_display(decisions, form.request.user, form.visibility), strict=True)
    )
    return {
        "answer": answers[form.generation_name],
        "generation_answers": [
            {
                "name": name,
                "answer": answer,
                "missing_total": missing_total(answer),
                "url": _question_url(form, generation=name),
                "is_current": name == form.generation_name,
            }
            for name, answer in answers.items()
        ],
    }


def _question_url(form: QuestionForm, generation: str = "") -> str:
    """Return the URL of the Ask page with this question.

    It names the generation even if this is the active one.
    """
    fields = form.fields | {
        "subject": with_default_type(form.fields["subject"]),
        "entity": form.entity,
        "generation": generation or form.generation_name,
        "as_of": as_of_for_links(form.request),
        "at": at_for_links(form.request),
    }
    return url_with_query("ask", fields)


def _other_parameters(request: HttpRequest) -> Iterable[tuple[str, str]]:
    """Yield the query parameters of the other sections, which the form must keep.

    Only administrators can select addresses.
    """
    for name, values in request.GET.lists():
        if name not in FIELDS and (name != "address" or request.user.can_administer):
            yield from ((name, value) for value in values)


def _operation_answers(form: QuestionForm) -> list[dict]:
    """Return the answers to all operations of the kind, for the selected subject and generation."""
    return answer_summaries(
        [
            (
                operation,
                form.question(operation=operation, generation=form.generation_name),
                url_with(form.request, operation=operation),
            )
            for operation in KINDS[form.entity.kind].operations
        ]
    )


def _answer_groups(form: QuestionForm, answers: Sequence[dict]) -> list[dict]:
    """Return the answers by access level, each group with the number of permitted operations."""
    rows = {answer["name"]: answer for answer in answers}
    groups = operations_in_groups(GENERATIONS[form.generation_name], form.entity.kind, rows)
    return [
        {
            "title": title,
            "rows": [rows[name] for name in names],
            "permitted": sum(rows[name]["is_permitted"] for name in names),
        }
        for title, names in groups
    ]


def _generation_summaries(form: QuestionForm) -> list[dict]:
    """Return the answers of all generations; none for a plain privilege, because generations differ only in
    operations.
    """
    if not is_operation(form.entity.kind, form.fields["operation"]):
        return []
    return answer_summaries(
        [
            (name, form.question(generation=name), url_with(form.request, generation=name))
            for name in GENERATIONS
        ],
        current=form.generation_name,
    )


def question_input(request: HttpRequest) -> dict[str, str]:
    """Return the submitted text of each form field."""
    values = QuestionInputForm(request.GET)
    values.is_valid()
    return {name: values.cleaned_data[name][:MAX_CHARACTERS] for name in FIELDS}


def question_from_input(address: Address, fields: dict, generation: Generation) -> Question:
    """Return the question. Raise QuestionError or PrincipalError if a field is invalid."""
    type_, name = parse_principal(with_default_type(fields["subject"]))
    context = {member: fields[member] for member in FIELDS[2:] if fields.get(member)}
    if "artifact_is_new" in context:
        context["artifact_is_new"] = True
    return question_from_json(
        {
            "subject": {"type": type_, "id": name},
            "action": {"name": fields["operation"]},
            "context": context,
            "resource": {"type": address.kind, "id": address.key},
        },
        active_generation=generation.name,
    )


def _context_fields(generation: str, kind: str, fields: dict) -> list[dict]:
    """Return the fields for the members of the context that the policy of the selected operation reads."""
    return [
        {"name": name, "value": clip(fields[name], 600)} | CONTEXT_FIELDS[name]
        for name in context_members(generation, kind, fields["operation"])
    ]
