"""AuthZEN: Subject, Resource and Action Search. Each result is permitted, and all that is permitted is found."""

from authzconsole.api.endpoint import endpoint
from authzconsole.api.page_tokens import PageAsked, page_asked
from authzconsole.common.api_caller import Caller
from authzconsole.common.refusal import Refused
from authzconsole.models import TokenScope
from entities.vocabulary import KINDS, Privilege
from grants.evaluation.authzen_search import EMPTY_PAGE, search_entities, search_operations, search_principals
from grants.policies.question import Question, question_from_json

MEMBERS = ("subject", "action", "resource", "context")
# a privilege is asked of every kind of entity
ANY_ACTION = {"name": Privilege.READ.value}


@endpoint(TokenScope.DECIDE)
def subject_search(caller: Caller, body: dict) -> dict:
    if not caller.asks_about_all:
        raise Refused(403, "your account may ask about itself only: who else may do something is not told")
    body = _with(body, "subject", id="")
    question = question_from_json(body, active_generation=caller.generation)
    page = _page(body, "subject", question)
    found = EMPTY_PAGE if question.unknown_reason else search_principals(question, after=page.after, max_rows=page.most_rows)
    return page.answered(found, [{"type": question.subject_type, "id": name} for name in found.ids])


@endpoint(TokenScope.DECIDE)
def resource_search(caller: Caller, body: dict) -> dict:
    body = _with(body, "resource", id="")
    question = question_from_json(body, active_generation=caller.generation, of_kind=True)
    caller.check_may_ask(question)
    page = _page(body, "resource", question)
    found = EMPTY_PAGE if question.unknown_reason else search_entities(
        question, after=page.after, max_rows=page.most_rows, visible_in=None if caller.asks_about_all else caller.generation)
    return page.answered(found, [{"type": question.target.kind, "id": key} for key in found.ids])


@endpoint(TokenScope.DECIDE)
def action_search(caller: Caller, body: dict) -> dict:
    body = body | {"action": ANY_ACTION}
    question = question_from_json(body, active_generation=caller.generation)
    caller.check_may_ask(question)
    page = _page(body, "action", question)
    found = EMPTY_PAGE if question.unknown_reason else search_operations(
        _questions(body, question.target.kind, caller.generation), after=page.after, max_rows=page.most_rows)
    return page.answered(found, [{"name": operation} for operation in found.ids])


def _questions(body: dict, kind: str, active: str) -> list[Question]:
    """Every operation of the kind, then the bare privileges."""
    return [question_from_json(body | {"action": {"name": str(name)}}, active_generation=active)
            for name in (*KINDS[kind].operations, *Privilege)]


def _with(body: dict, member: str, **parts) -> dict:
    """The body with other parts of one member; a member that is no object is left for the question to refuse."""
    return body | {member: body[member] | parts} if isinstance(body.get(member), dict) else body


def _page(body: dict, searched: str, question: Question) -> PageAsked:
    asked = [body.get(member) for member in MEMBERS]
    return page_asked(body, search=[searched, question.generation, *asked])
