"""AuthZEN: Access Evaluation and Access Evaluations."""

from authzconsole.api.endpoint import endpoint
from authzconsole.common.api_caller import Caller
from authzconsole.common.refusal import Refused
from authzconsole.models import TokenScope
from grants.evaluation.engine import answer_questions
from grants.policies.disclosure import redact_all
from grants.policies.question import Question, QuestionError, question_from_json

MOST_EVALUATIONS = 1_000
MEMBERS = ("subject", "action", "resource", "context")
# the decision at which each semantic stops
SEMANTICS = {"execute_all": None, "deny_on_first_deny": False, "permit_on_first_permit": True}


@endpoint(TokenScope.DECIDE)
def evaluation(caller: Caller, body: dict) -> dict:
    return _one(caller, body)


@endpoint(TokenScope.DECIDE)
def evaluations(caller: Caller, body: dict) -> dict:
    return evaluated(caller, body)


def evaluated(caller: Caller, body: dict) -> dict:
    """The answers to one request, of one question or of many. Raises Refused, QuestionError."""
    items, stops_at = _items(body), _stops_at(body)
    if not items:
        return _one(caller, body)
    defaults = {member: body[member] for member in MEMBERS if member in body}
    _check_defaults(defaults, caller.generation)
    found = list(_answers(caller, [_question(defaults, item, place, caller.generation) for place, item in enumerate(items)]))
    return {"evaluations": found[: _last(found, stops_at)]}


def _one(caller: Caller, body: dict) -> dict:
    return next(_answers(caller, [question_from_json(body, active_generation=caller.generation)]))


def _answers(caller: Caller, items: list[Question | QuestionError]):
    for item in items:
        if isinstance(item, Question):
            caller.check_may_ask(item)
    if caller.asks_about_all:
        return answer_questions(items)
    return answer_questions(items, redact=redact_all, states=caller.states_seen)


def _items(body: dict) -> list:
    items = body.get("evaluations", [])
    if not isinstance(items, list):
        raise Refused(400, "`evaluations` must be an array")
    if len(items) > MOST_EVALUATIONS:
        raise Refused(400, f"`evaluations` holds {len(items):,} items; {MOST_EVALUATIONS:,} are allowed in one request")
    return items


def _stops_at(body: dict) -> bool | None:
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise Refused(400, "`options` must be an object")
    semantic = options.get("evaluations_semantic", "execute_all")
    if not isinstance(semantic, str) or semantic not in SEMANTICS:
        raise Refused(400, f"`options.evaluations_semantic` must be one of {', '.join(SEMANTICS)}")
    return SEMANTICS[semantic]


def _check_defaults(defaults: dict, generation: str) -> None:
    """Ill-formed defaults are a fault of the whole request, an ill-formed item is one of the item."""
    whole = {"subject": {"type": "", "id": ""}, "action": {"name": ""}, "resource": {"type": "", "id": ""}, "context": {}}
    if isinstance(defaults.get("context"), dict):
        # what stands in it is read with each item that inherits it
        defaults = defaults | {"context": {}}
    question_from_json(whole | defaults, active_generation=generation)


def _question(defaults: dict, item: object, place: int, generation: str) -> Question | QuestionError:
    if not isinstance(item, dict):
        return QuestionError(f"`evaluations[{place}]` must be an object")
    own = {member: item[member] for member in MEMBERS if member in item}
    try:
        return question_from_json(defaults | own, active_generation=generation)
    except QuestionError as error:
        return error


def _last(found: list[dict], stops_at: bool | None) -> int:
    """How many answers there are: the deciding one is the last."""
    return next((place for place, one in enumerate(found, 1) if one["decision"] is stops_at), len(found))
