"""The AuthZEN endpoints Subject, Resource and Action Search. The results are exactly what evaluations permit."""

from authzconsole.api.endpoint import endpoint
from authzconsole.api.page_tokens import RequestedPage, requested_page
from authzconsole.common.api_caller import Caller
from authzconsole.common.refusal import RequestRefused
from authzconsole.models import TokenScope
from entities.vocabulary import KINDS, Privilege
from grants.evaluation.authzen_search import EMPTY_PAGE, search_entities, search_operations, search_principals
from grants.policies.question import Question, question_from_json

MEMBERS = ("subject", "action", "resource", "context")
# an action search names no action; a bare privilege is valid for every kind of entity
PLACEHOLDER_ACTION = {"name": Privilege.READ.value}


@endpoint(TokenScope.DECIDE)
def subject_search(caller: Caller, body: dict) -> dict:
    if not caller.can_ask_about_all:
        raise RequestRefused(403, "your account can only ask about itself, so it cannot search for subjects")
    body = _with_member(body, "subject", id="")
    question = question_from_json(body, active_generation=caller.generation)
    page = _page(body, "subject", question)
    search_page = EMPTY_PAGE if question.unknown_reason else search_principals(question, after=page.after, max_rows=page.max_rows)
    return page.response(search_page, [{"type": question.subject_type, "id": name} for name in search_page.ids])


@endpoint(TokenScope.DECIDE)
def resource_search(caller: Caller, body: dict) -> dict:
    body = _with_member(body, "resource", id="")
    question = question_from_json(body, active_generation=caller.generation, is_search=True)
    caller.check_can_ask(question)
    page = _page(body, "resource", question)
    visible_in = None if caller.can_ask_about_all else caller.generation
    search_page = EMPTY_PAGE if question.unknown_reason else search_entities(
        question, after=page.after, max_rows=page.max_rows, visible_in=visible_in)
    return page.response(search_page, [{"type": question.target.kind, "id": key} for key in search_page.ids])


@endpoint(TokenScope.DECIDE)
def action_search(caller: Caller, body: dict) -> dict:
    body = body | {"action": PLACEHOLDER_ACTION}
    question = question_from_json(body, active_generation=caller.generation)
    caller.check_can_ask(question)
    page = _page(body, "action", question)
    search_page = EMPTY_PAGE if question.unknown_reason else search_operations(
        _questions_for_each_action(body, question.target.kind, caller.generation), after=page.after, max_rows=page.max_rows,
        known_containers=None if caller.can_ask_about_all else caller.known_containers)
    return page.response(search_page, [{"name": operation} for operation in search_page.ids])


def _questions_for_each_action(body: dict, kind: str, generation: str) -> list[Question]:
    """Return one question for every operation of the kind, then one for every privilege."""
    return [question_from_json(body | {"action": {"name": str(name)}}, active_generation=generation)
            for name in (*KINDS[kind].operations, *Privilege)]


def _with_member(body: dict, member: str, **parts) -> dict:
    """Return the body with `parts` set in one member. A member that is not an object stays; reading the question refuses it."""
    return body | {member: body[member] | parts} if isinstance(body.get(member), dict) else body


def _page(body: dict, searched_member: str, question: Question) -> RequestedPage:
    members = [body.get(member) for member in MEMBERS]
    return requested_page(body, search=[searched_member, question.generation, *members])
