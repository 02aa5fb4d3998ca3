"""The AuthZEN access request endpoints (ARAP, a draft): submit a request, follow it, and cancel it.

Errors are application/problem+json with the types of the profile. A task is known to the account that
submitted it and to its subject; all other accounts get the same answer as for a task that does not exist.
"""

import json
from collections.abc import Callable
from functools import wraps

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from authzconsole.api.denials import check_denial, is_requestable
from authzconsole.api.endpoint import REQUEST_PATH, api_view, check_method, json_response
from authzconsole.common.api_caller import Caller, authenticate_caller, author_of
from authzconsole.common.problems import Problem
from authzconsole.common.request_body import check_content_type, read_json_object
from authzconsole.models import TokenScope
from grants.errors import DuplicateRequest, PrincipalError, RequestClosed, RequestError
from grants.journal import Author
from grants.models import AccessRequest, RequestState, User
from grants.policies.question import Question, context_members, question_from_json
from grants.requests.create import (
    RequestDraft,
    WantedAccess,
    create_request,
    request_subject,
    request_with_key,
)
from grants.requests.own_steps import withdraw_request
from grants.validity import Validity, format_time

ERROR_TYPE = "urn:openid:authzen:access-request:error:"
# the errors of the profile; other problems have no type
ERRORS = (
    "duplicate_request",
    "expired_denial",
    "invalid_denial_binding",
    "invalid_task_state",
    "not_requestable",
    "task_expired",
    "unknown_task",
)
TASK_PREFIX = "arq_"
MAX_TASK_DIGITS = 17


def _problem_response(problem: Problem) -> HttpResponse:
    content = {
        "type": f"{ERROR_TYPE}{problem.problem_type}" if problem.problem_type in ERRORS else "about:blank",
        "status": problem.status,
        "detail": problem.detail,
        **problem.members,
    }
    return HttpResponse(
        json.dumps(content),
        status=problem.status,
        content_type="application/problem+json",
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def _endpoint(*methods: str) -> Callable:
    """Turn `function(request, caller, author, **kwargs)` into a view of these methods."""

    def decorate(function: Callable[..., HttpResponse]):
        @wraps(function)
        def view(request: HttpRequest, **kwargs) -> HttpResponse:
            check_method(request, *methods)
            if request.method == "POST":
                check_content_type(request)
            caller = authenticate_caller(request, TokenScope.DECIDE, is_change=True)
            return function(request, caller, author_of(request), **kwargs)

        return api_view(view, respond=_problem_response)

    return decorate


@_endpoint("POST")
def submit_request(request: HttpRequest, caller: Caller, author: Author) -> HttpResponse:
    """Create a request (202), or return the one that was created with the same Idempotency-Key."""
    body = read_json_object(request, allows_surrogates=False)
    # before the denial is checked, because it may have expired since the first attempt
    if (key := _idempotency_key(request)) and (first := request_with_key(author.user_id, key)):
        return _created_response(first)
    try:
        question = question_from_json(body, active_generation=caller.generation)
        draft = _draft(request, caller, body, question, _subject(caller, author, question))
        created = create_request(author=author, draft=draft)
    except DuplicateRequest as error:
        raise Problem(
            409, str(error), type_="duplicate_request", task={"id": f"{TASK_PREFIX}{error.request_id}"}
        ) from None
    except (PrincipalError, RequestError) as error:
        raise Problem(400, str(error), type_="not_requestable") from None
    return _created_response(created)


@_endpoint("GET", "HEAD")
def request_status(request: HttpRequest, caller: Caller, author: Author, task: str) -> HttpResponse:
    return json_response(_task(_request_of(task, author)))


@_endpoint("POST")
def cancel_request(request: HttpRequest, caller: Caller, author: Author, task: str) -> HttpResponse:
    access_request = _request_of(task, author)
    body = read_json_object(request, default={}, allows_surrogates=False)
    comment = "; ".join(text for name in ("reason", "comment") if isinstance(text := body.get(name), str))
    try:
        return json_response(
            _task(withdraw_request(author=author, request_id=access_request.pk, comment=comment))
        )
    except RequestClosed as error:
        is_expired = access_request.current_state == RequestState.EXPIRED
        raise Problem(
            410 if is_expired else 409,
            str(error),
            type_="task_expired" if is_expired else "invalid_task_state",
        ) from None


def _created_response(created: AccessRequest) -> HttpResponse:
    return json_response(_task(created), status=202, headers={"Location": _url(created)})


def _idempotency_key(request: HttpRequest) -> str:
    return request.headers.get("Idempotency-Key", "").strip()


def _subject(caller: Caller, author: Author, question: Question) -> User:
    """Return the user who will get the access.

    Raise NotAdministrator or PrincipalError as `request_subject` does.
    """
    account = User.objects.get(pk=author.user_id)
    # an enforcement point requests access for the users whom it denied
    is_allowed = caller.can_ask_about_all and (account.is_service or account.can_administer)
    return request_subject(account, question.principal, is_allowed_for_others=is_allowed)


def _draft(
    request: HttpRequest, caller: Caller, body: dict, question: Question, subject: User
) -> RequestDraft:
    if question.unknown_reason or not is_requestable(question, caller.generation):
        raise Problem(400, question.unknown_reason or "no grant permits this", type_="not_requestable")
    denial, wanted, context = body.get("denial"), body.get("requested_access", {}), body.get("context", {})
    if denial is not None:
        check_denial(denial.get("evaluation_id") if isinstance(denial, dict) else None, question)
    if not isinstance(wanted, dict):
        raise Problem(400, "`requested_access` must be an object")
    reason = context.get("business_justification")
    if not isinstance(reason, str) or not reason.strip():
        raise Problem(400, "`context.business_justification` is missing: say why the access is needed")
    names = context_members(question.generation, question.known_target.kind, question.operation)
    members = {name: context[name] for name in names if context.get(name) is not None}
    return RequestDraft(
        reason,
        [WantedAccess(question.known_target, question.operation, members)],
        subject=subject,
        requested_until=Validity.parse(None, wanted.get("requested_until")).valid_until,
        idempotency_key=_idempotency_key(request),
    )


def _request_of(task: str, author: Author) -> AccessRequest:
    """Return the request of a task of this account. Raise Problem (404) if there is none."""
    number = task.removeprefix(TASK_PREFIX)
    is_number = (
        task.startswith(TASK_PREFIX)
        and number.isascii()
        and number.isdigit()
        and len(number) <= MAX_TASK_DIGITS
    )
    is_own = Q(subject=author.user_id) | Q(creator=author.user_id)
    rows = AccessRequest.objects.select_related("subject")
    access_request = rows.filter(is_own, pk=int(number)).first() if is_number else None
    if access_request is None:
        raise Problem(404, "there is no such task", type_="unknown_task")
    return access_request


def _task(request: AccessRequest) -> dict:
    state, url = request.current_state, _url(request)
    task = {
        "id": f"{TASK_PREFIX}{request.pk}",
        "status": str(state),
        "status_endpoint": url,
        "expires_at": format_time(request.expires_at),
    }
    if state == RequestState.PENDING:
        return {"task": task | {"links": {"cancel": f"{url}/cancel"}}}
    if state != RequestState.APPROVED:
        return {"task": task}
    ends = [part.valid_until for part in request.parts.all() if part.valid_until]
    approval = {"id": f"apr_{request.pk}", "approved_at": format_time(request.decided_at)}
    return {
        "task": task,
        "result": {
            "mode": "reevaluate",
            "approval": approval | ({"approved_until": format_time(min(ends))} if ends else {}),
        },
    }


def _url(request: AccessRequest) -> str:
    return f"{settings.PUBLIC_URL}/{REQUEST_PATH}/{TASK_PREFIX}{request.pk}"
