"""The AuthZEN endpoints Access Evaluation and Access Evaluations."""

from collections.abc import Iterator

from authzconsole.api.endpoint import endpoint
from authzconsole.common.api_caller import Caller
from authzconsole.common.monitoring.metrics import count_decision
from authzconsole.common.refusal import RequestRefused
from authzconsole.models import TokenScope
from grants.evaluation.engine import answer_questions
from grants.policies.disclosure import redact_all
from grants.policies.question import Question, QuestionError, question_from_json

MAX_EVALUATIONS = 1_000
MEMBERS = ("subject", "action", "resource", "context")
# the decision after which evaluation stops, by semantic
STOP_DECISIONS = {"execute_all": None, "deny_on_first_deny": False, "permit_on_first_permit": True}


@endpoint(TokenScope.DECIDE)
def evaluation(caller: Caller, body: dict) -> dict:
    return _evaluate_one(caller, body)


@endpoint(TokenScope.DECIDE)
def evaluations(caller: Caller, body: dict) -> dict:
    return evaluate_request(caller, body)


def evaluate_request(caller: Caller, body: dict) -> dict:
    """Return the response to a request with one question or many. Raise RequestRefused or QuestionError."""
    items, stop_decision = _batch_items(body), _stop_decision(body)
    if not items:
        return _evaluate_one(caller, body)
    defaults = {member: body[member] for member in MEMBERS if member in body}
    _check_defaults(defaults, caller.generation)
    questions = [_question(defaults, item, index, caller.generation) for index, item in enumerate(items)]
    return {"evaluations": _evaluations_until(stop_decision, list(_answers(caller, questions)))}


def _evaluate_one(caller: Caller, body: dict) -> dict:
    return next(_answers(caller, [question_from_json(body, active_generation=caller.generation)]))


def _answers(caller: Caller, questions: list[Question | QuestionError]) -> Iterator[dict]:
    for question in questions:
        if isinstance(question, Question):
            caller.check_can_ask(question)
    if caller.can_ask_about_all:
        return _count_decisions(questions, answer_questions(questions))
    return _count_decisions(questions, answer_questions(questions, redact=redact_all, states=caller.visible_states,
                                                      known_containers=caller.known_containers))


def _count_decisions(questions: list[Question | QuestionError], answers: Iterator[dict]) -> Iterator[dict]:
    """Yield the answers, and count the decisions for the metrics."""
    for question, answer in zip(questions, answers, strict=True):
        if isinstance(question, Question):
            count_decision(question.generation, answer["decision"])
        yield answer


def _batch_items(body: dict) -> list:
    items = body.get("evaluations", [])
    if not isinstance(items, list):
        raise RequestRefused(400, "`evaluations` must be an array")
    if len(items) > MAX_EVALUATIONS:
        raise RequestRefused(400, f"`evaluations` has {len(items):,} items; the limit is {MAX_EVALUATIONS:,} per request")
    return items


def _stop_decision(body: dict) -> bool | None:
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise RequestRefused(400, "`options` must be an object")
    semantic = options.get("evaluations_semantic", "execute_all")
    if not isinstance(semantic, str) or semantic not in STOP_DECISIONS:
        raise RequestRefused(400, f"`options.evaluations_semantic` must be one of {', '.join(STOP_DECISIONS)}")
    return STOP_DECISIONS[semantic]


def _check_defaults(defaults: dict, generation: str) -> None:
    """Raise QuestionError for malformed defaults. They fail the whole request, but a malformed item fails only itself."""
    complete = {"subject": {"type": "", "id": ""}, "action": {"name": ""}, "resource": {"type": "", "id": ""}, "context": {}}
    if isinstance(defaults.get("context"), dict):
        # the members of the context are checked with each item that inherits it
        defaults = defaults | {"context": {}}
    question_from_json(complete | defaults, active_generation=generation)


def _question(defaults: dict, item: object, index: int, generation: str) -> Question | QuestionError:
    if not isinstance(item, dict):
        return QuestionError(f"`evaluations[{index}]` must be an object")
    members = {member: item[member] for member in MEMBERS if member in item}
    try:
        return question_from_json(defaults | members, active_generation=generation)
    except QuestionError as error:
        return error


def _evaluations_until(stop_decision: bool | None, evaluations: list[dict]) -> list[dict]:
    """Return the evaluations up to the first one with the stop decision, inclusive."""
    count = next((count for count, item in enumerate(evaluations, 1) if item["decision"] is stop_decision), len(evaluations))
    return evaluations[:count]
