"""The AuthZEN endpoints Access Evaluation and Access Evaluations.

With `context.at` or `context.as_of`, they evaluate at another time, or with an earlier state. A caller that may only
ask about itself may do so for other times, too. Its explanations show the entities that it sees now, and rules over
all live entities read the containers that it knows now.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from authzconsole.api.denials import with_offers
from authzconsole.api.endpoint import endpoint
from authzconsole.common.api_caller import Caller
from authzconsole.common.monitoring.metrics import count_decision
from authzconsole.common.problems import Problem
from authzconsole.common.rate_limits import past_request
from authzconsole.models import TokenScope
from entities.address import Address
from entities.frozen import frozen
from grants.active_generation import active_generation
from grants.evaluation.engine import ListedEntities, answer_questions, entity_states
from grants.history import MAX_MOMENTS, NOW, Moment, at_moment, group_by_moment, has_moment, moment_of
from grants.policies.explain import redact_all
from grants.policies.question import Question, QuestionError, question_from_json
from grants.usage import record_use

MAX_EVALUATIONS = 1_000
# the limit of decisions counts ten questions of a request like one request, and each state or time like a
# hundred, because it costs some milliseconds
QUESTIONS_PER_REQUEST, REQUESTS_PER_MOMENT = 10, 100
# different states and times in one request of a caller that may only ask about itself
MAX_OWN_MOMENTS = 5


@frozen
class CallerThen(Caller):
    """The caller of questions about another time. generation: the active one in that state.

    visible, known: the addresses of the questions that the caller sees, and the containers that it knows, in
    the present.
    """

    visible: frozenset[Address] = frozenset()
    known: frozenset[Address] = frozenset()

    def visible_states(self, addresses: set[Address]) -> dict[Address, str]:
        return dict(entity_states(addresses & self.visible))

    def known_containers(self, addresses: set[Address]) -> set[Address]:
        return addresses & self.known


@contextmanager
def caller_at(caller: Caller, moment: Moment, targets: set[Address]) -> Iterator[Caller]:
    """Answer questions for the state and the time of the moment. Yield their caller. Compute all answers
    inside.

    targets: the addresses of the questions. Raise HistoryNotReady.
    """
    is_limited = not caller.can_ask_about_all and bool(targets)
    visible = frozenset(caller.visible_states(targets)) if is_limited else frozenset()
    known = frozenset(caller.known_containers(targets)) if is_limited else frozenset()
    with at_moment(moment):
        generation = caller.generation if moment.revision is None else active_generation().name
        yield CallerThen(
            generation,
            caller.can_ask_about_all,
            caller.name,
            caller.user,
            caller.account_id,
            caller.token_number,
            visible,
            known,
        )


def reading_moments(caller: Caller, moments: Collection[Moment]) -> AbstractContextManager[None]:
    """Count the moments of a request. Return the context manager in which it is answered.

    Raise Problem (429 or 503) above a limit.
    """
    caller.count_questions(REQUESTS_PER_MOMENT * len(moments))
    is_past = any(moment.revision is not None for moment in moments)
    return (
        past_request(caller.account_id, is_limited=not caller.can_ask_about_all) if is_past else nullcontext()
    )


def with_revision(answer: dict, revision: int | None) -> dict:
    """Return the answer with the revision that it is about; unchanged for None, the present."""
    return (
        answer if revision is None else answer | {"context": {**answer.get("context", {}), "as_of": revision}}
    )


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
    """Return the response to a request with one question or many. Raise Problem or QuestionError."""
    items, stop_decision = _batch_items(body), _stop_decision(body)
    if not items:
        return _evaluate_one(caller, body)
    defaults = {member: body[member] for member in MEMBERS if member in body}
    _check_defaults(defaults, caller.generation)
    bodies = [_with_defaults(defaults, item) for item in items]
    if any(map(has_moment, bodies)):
        answers = _answers_at_moments(caller, bodies)
    else:
        caller.count_questions(len(bodies) // QUESTIONS_PER_REQUEST)
        answers = list(_answers(caller, _questions(enumerate(bodies), caller.generation), are_uses=True))
    return {"evaluations": _evaluations_until(stop_decision, with_offers(caller, bodies, answers))}


def _evaluate_one(caller: Caller, body: dict) -> dict:
    question = question_from_json(body, active_generation=caller.generation)
    moment = moment_of(body)
    if moment == NOW:
        return with_offers(caller, [body], list(_answers(caller, [question], are_uses=True)))[0]
    with reading_moments(caller, [moment]), caller_at(caller, moment, _targets([question])) as caller_then:
        question = question_from_json(body, active_generation=caller_then.generation)
        return with_revision(next(_answers(caller_then, [question])), moment.revision)


def _answers_at_moments(caller: Caller, bodies: list) -> list[dict]:
    """Return the answers in order. Some requests ask about another time or about the past."""
    positions, errors = group_by_moment(bodies, MAX_MOMENTS if caller.can_ask_about_all else MAX_OWN_MOMENTS)
    caller.count_questions(len(bodies) // QUESTIONS_PER_REQUEST)
    with reading_moments(caller, positions.keys() - {NOW}):
        answers = _answers_by_moment(caller, bodies, positions, errors)
    return [answers[position] for position in range(len(bodies))]


def _answers_by_moment(
    caller: Caller,
    bodies: list,
    positions: Mapping[Moment, list[int]],
    errors: Mapping[int, QuestionError],
) -> dict[int, dict]:
    """Return the answers by the position of their request."""
    listed = ListedEntities()
    answers = dict(zip(errors, _answers(caller, list(errors.values())), strict=True))
    for moment, group in positions.items():
        requests = [(position, bodies[position]) for position in group]
        questions = _questions(requests, caller.generation)
        if moment == NOW:
            answers.update(zip(group, _answers(caller, questions, listed, are_uses=True), strict=True))
            continue
        with caller_at(caller, moment, _targets(questions)) as caller_then:
            answers_then = _answers(caller_then, _questions(requests, caller_then.generation), listed)
            answers.update(
                (position, with_revision(answer, moment.revision))
                for position, answer in zip(group, answers_then, strict=True)
            )
    return answers


def _targets(questions: Iterable[Question | QuestionError]) -> set[Address]:
    return {
        question.target
        for question in questions
        if isinstance(question, Question) and question.target is not None
    }


def _answers(
    caller: Caller,
    questions: list[Question | QuestionError],
    listed: ListedEntities | None = None,
    *,
    are_uses: bool = False,
) -> Iterator[dict]:
    """Yield the answers. Raise QuestionError if their explanations are too long together.

    listed: what earlier explanations of the same request list. are_uses: record permitted decisions as use;
    decisions about another time do not count as use.
    """
    listed = listed or ListedEntities()
    for question in questions:
        if isinstance(question, Question):
            caller.check_can_ask(question)
    if caller.can_ask_about_all:
        return _count_decisions(questions, answer_questions(questions, listed=listed), are_uses)
    return _count_decisions(
        questions,
        answer_questions(
            questions,
            redact=redact_all,
            states=caller.visible_states,
            known_containers=caller.known_containers,
            listed=listed,
        ),
        are_uses,
    )


def _count_decisions(
    questions: list[Question | QuestionError], answers: Iterator[dict], are_uses: bool
) -> Iterator[dict]:
    """Yield the answers, count the decisions for the metrics, and record uses."""
    for question, answer in zip(questions, answers, strict=True):
        if isinstance(question, Question):
            count_decision(question.generation, answer["decision"])
            if are_uses and answer["decision"]:
                record_use((question,))
        yield answer


def _batch_items(body: dict) -> list:
    items = body.get("evaluations", [])
    if not isinstance(items, list):
        raise Problem(400, "`evaluations` must be an array")
    if len(items) > MAX_EVALUATIONS:
        raise Problem(
            400, f"`evaluations` has {len(items):,} items; the limit is {MAX_EVALUATIONS:,} per request"
        )
    return items


def _stop_decision(body: dict) -> bool | None:
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise Problem(400, "`options` must be an object")
    semantic = options.get("evaluations_semantic", "execute_all")
    if not isinstance(semantic, str) or semantic not in STOP_DECISIONS:
        raise Problem(400, f"`options.evaluations_semantic` must be one of {', '.join(STOP_DECISIONS)}")
    return STOP_DECISIONS[semantic]


def _check_defaults(defaults: dict, generation: str) -> None:
    """Raise QuestionError for malformed defaults.

    They fail the whole request, but a malformed item fails only itself.
    """
    complete = {
        "subject": {"type": "", "id": ""},
        "action": {"name": ""},
        "resource": {"type": "", "id": ""},
        "context": {},
    }
    if isinstance(defaults.get("context"), dict):
        # the members of the context are checked with each item that inherits it
        defaults = defaults | {"context": {}}
    question_from_json(complete | defaults, active_generation=generation)


def _with_defaults(defaults: dict, item: object) -> object:
    """Return the item with the defaults of the request. An item that is not an object stays as it is."""
    return (
        defaults | {member: item[member] for member in MEMBERS if member in item}
        if isinstance(item, dict)
        else item
    )


def _questions(bodies: Iterable[tuple[int, object]], generation: str) -> list[Question | QuestionError]:
    """Return the questions of items with their positions, or the error of a malformed one."""
    return [_question(body, index, generation) for index, body in bodies]


def _question(body: object, index: int, generation: str) -> Question | QuestionError:
    if not isinstance(body, dict):
        return QuestionError(f"`evaluations[{index}]` must be an object")
    try:
        return question_from_json(body, active_generation=generation)
    except QuestionError as error:
        return error


def _evaluations_until(stop_decision: bool | None, evaluations: list[dict]) -> list[dict]:
    """Return the evaluations up to the first one with the stop decision, inclusive."""
    count = next(
        (count for count, item in enumerate(evaluations, 1) if item["decision"] is stop_decision),
        len(evaluations),
    )
    return evaluations[:count]
