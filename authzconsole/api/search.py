"""The AuthZEN endpoints Subject, Resource and Action Search.

The results are exactly what evaluations permit.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from authzconsole.api.endpoint import endpoint
from authzconsole.api.page_tokens import RequestedPage, requested_page
from authzconsole.api.past import caller_at
from authzconsole.common.api_caller import Caller
from authzconsole.common.problems import Problem
from authzconsole.models import TokenScope
from entities.address import Address
from entities.vocabulary import KINDS, Privilege
from grants.evaluation.authzen_search import EMPTY_PAGE, search_entities, search_operations, search_principals
from grants.history import NOW
from grants.history.questions import moment_of
from grants.policies.question import Question, question_from_json

MEMBERS = ("subject", "action", "resource", "context")
# an action search names no action; a bare privilege is valid for every kind of entity
PLACEHOLDER_ACTION = {"name": Privilege.READ.value}


@endpoint(TokenScope.DECIDE)
def subject_search(caller: Caller, body: dict) -> dict:
    if not caller.can_ask_about_all:
        raise Problem(403, "your account can only ask about itself, so it cannot search for subjects")
    body = _with_member(body, "subject", id="")
    with _open_state(caller, body) as caller_of_state:
        question = question_from_json(body, active_generation=caller_of_state.generation)
        page = _page(body, "subject", question)
        search_page = (
            EMPTY_PAGE
            if question.unknown_reason
            else search_principals(question, after=page.after, max_rows=page.max_rows)
        )
    return page.response(
        search_page, [{"type": question.subject_type, "id": name} for name in search_page.ids]
    )


@endpoint(TokenScope.DECIDE)
def resource_search(caller: Caller, body: dict) -> dict:
    body = _with_member(body, "resource", id="")
    with _open_state(caller, body) as caller_of_state:
        question = question_from_json(body, active_generation=caller_of_state.generation, is_search=True)
        caller.check_can_ask(question)
        page = _page(body, "resource", question)
        visible_in = None if caller.can_ask_about_all else caller_of_state.generation
        search_page = (
            EMPTY_PAGE
            if question.unknown_reason
            else search_entities(question, after=page.after, max_rows=page.max_rows, visible_in=visible_in)
        )
    kind, keys = question.target and question.target.kind, search_page.ids
    if caller_of_state is not caller and not caller.can_ask_about_all:
        # entities that the caller sees then and does not see now stay hidden
        visible = caller.visible_states({Address(kind, key) for key in keys})
        keys = [key for key in keys if Address(kind, key) in visible]
        search_page = replace(search_page, total=None)
    return page.response(search_page, [{"type": kind, "id": key} for key in keys])


@endpoint(TokenScope.DECIDE)
def action_search(caller: Caller, body: dict) -> dict:
    body = body | {"action": PLACEHOLDER_ACTION}
    target = question_from_json(body, active_generation=caller.generation).target
    with _open_state(caller, body, target) as caller_of_state:
        question = question_from_json(body, active_generation=caller_of_state.generation)
        caller.check_can_ask(question)
        page = _page(body, "action", question)
        search_page = (
            EMPTY_PAGE
            if question.unknown_reason
            else search_operations(
                _questions_for_each_action(body, question.target.kind, caller_of_state.generation),
                after=page.after,
                max_rows=page.max_rows,
                known_containers=None if caller.can_ask_about_all else caller_of_state.known_containers,
            )
        )
    return page.response(search_page, [{"name": operation} for operation in search_page.ids])


def _open_state(caller: Caller, body: dict, target: Address | None = None) -> AbstractContextManager[Caller]:
    """Return a context manager in which the search is answered for the state and the time that it names. It
    yields the caller to use."""
    moment = moment_of(body)
    return nullcontext(caller) if moment == NOW else caller_at(caller, moment, {target} if target else set())


def _questions_for_each_action(body: dict, kind: str, generation: str) -> list[Question]:
    """Return one question for every operation of the kind, then one for every privilege."""
    return [
        question_from_json(body | {"action": {"name": str(name)}}, active_generation=generation)
        for name in (*KINDS[kind].operations, *Privilege)
    ]


def _with_member(body: dict, member: str, **parts) -> dict:
    """Return the body with `parts` set in one member. A member that is not an object is returned unchanged.
    The parser refuses it later."""
    return body | {member: body[member] | parts} if isinstance(body.get(member), dict) else body


def _page(body: dict, searched_member: str, question: Question) -> RequestedPage:
    members = [body.get(member) for member in MEMBERS]
    return requested_page(body, search=[searched_member, question.generation, *members])
