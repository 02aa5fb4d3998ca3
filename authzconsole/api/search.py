"""The AuthZEN endpoints Subject, Resource and Action Search, and their page tokens.

The results are exactly what evaluations permit. A signed page token contains its search, its limit and the last id
before its page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from authzconsole.api.endpoint import endpoint
from authzconsole.api.evaluation import caller_at, reading_moments
from authzconsole.common.api_caller import Caller
from authzconsole.common.paging import CursorOfAnotherList, InvalidCursor, read_cursor, sign_cursor
from authzconsole.common.problems import Problem
from authzconsole.models import TokenScope
from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import KINDS, Privilege
from grants.evaluation.authzen_search import (
    EMPTY_PAGE,
    SearchPage,
    search_entities,
    search_operations,
    search_principals,
)
from grants.history import NOW, moment_of
from grants.policies.principals import written_subject
from grants.policies.question import Question, question_from_json

MAX_RESULTS = 1_000
SALT = "authzconsole.api.page"


@frozen
class RequestedPage:
    """The page that a search request asks for.

    search: the values that must stay the same from page to page. is_requested: whether the request has the
    member `page`.
    limit: the requested limit; None if there is none. after: the last id of the previous page; empty for the
    first page.
    """

    search: object
    is_requested: bool
    limit: int | None
    after: str

    @property
    def max_rows(self) -> int:
        return MAX_RESULTS if self.limit is None else min(self.limit, MAX_RESULTS)

    def response(self, search_page: SearchPage, results: list[dict]) -> dict:
        """Return the response body.

        It has the member `page` if the request has one, or if the results are incomplete.
        """
        if not self.is_requested and not search_page.has_more:
            return {"results": results}
        page = {"next_token": self._next_token(search_page), "count": len(results)}
        if search_page.total is not None:
            page["total"] = search_page.total
        return {"page": page, "results": results}

    def _next_token(self, search_page: SearchPage) -> str:
        # with a limit of 0, the response has only the total, and no page follows
        if not search_page.has_more or not self.max_rows:
            return ""
        last = search_page.ids[-1] if search_page.ids else self.after
        return sign_cursor([self.limit, last], list_identity=self.search, salt=SALT)


def requested_page(body: dict, *, search: object) -> RequestedPage:
    """Return the requested page. Raise Problem if the member `page` is invalid.

    search: the values of the request that must be the same on every page of a search.
    """
    page = body.get("page", {})
    if not isinstance(page, dict):
        raise Problem(400, "`page` must be an object")
    if not isinstance(page.get("properties", {}), dict):
        raise Problem(400, "`page.properties` must be an object")
    limit = _requested_limit(page)
    # the token of the last page is empty; a request with it gets the first page again
    if page.get("token", "") == "":
        return RequestedPage(search, "page" in body, limit, "")
    first_limit, after = _token_position(page["token"], search)
    if limit not in (None, first_limit):
        raise Problem(400, "`page.limit` must be the same as on the first page, or be left out")
    return RequestedPage(search, True, first_limit, after)


def _requested_limit(page: dict) -> int | None:
    limit = page.get("limit")
    if "limit" in page and (type(limit) is not int or limit < 0):
        raise Problem(400, "`page.limit` must be an integer of 0 or more")
    return limit


def _token_position(token: object, search: object) -> list:
    if not isinstance(token, str):
        raise Problem(400, "`page.token` must be a string")
    try:
        return read_cursor(token, list_identity=search, salt=SALT)
    except InvalidCursor:
        raise Problem(
            400,
            "`page.token` was not issued by this console, or was altered: leave it out to start with "
            "the first page",
        ) from None
    except CursorOfAnotherList:
        raise Problem(
            400, "`page.token` belongs to another search: do not change any member except `page`"
        ) from None


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
    subjects = (written_subject(question.subject_type, name) for name in search_page.ids)
    return page.response(search_page, [{"type": type_, "id": id_} for type_, id_ in subjects])


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


@contextmanager
def _open_state(caller: Caller, body: dict, target: Address | None = None) -> Iterator[Caller]:
    """Answer the search for the state and the time that it names. Yield the caller to use."""
    moment = moment_of(body)
    if moment == NOW:
        yield caller
        return
    with (
        reading_moments(caller, [moment]),
        caller_at(caller, moment, {target} if target else set()) as caller_then,
    ):
        yield caller_then


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
