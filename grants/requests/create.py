"""Create access requests.

INVARIANT: whether a request is accepted depends only on its text and on what the subject is permitted
already. It does not depend on whether an address or a colleague exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from itertools import islice

from django.conf import settings
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from entities.services import instance_fault
from entities.vocabulary import clip
from grants.active_generation import active_generation
from grants.authority.persons import accounts_of
from grants.change_set import Grant, Join
from grants.errors import AlreadyPermitted, DuplicateRequest, NotAdministrator, PrincipalError, RequestError
from grants.evaluation.engine import containers_known_to, hidden_containers
from grants.journal import Author
from grants.models import (
    AccessRequest,
    AccessRequestPart,
    RequestEventKind,
    RequestState,
    User,
)
from grants.plans.sources.like import differences
from grants.policies.policy import Generation
from grants.policies.question import Question, QuestionError
from grants.principal_names import name_fault
from grants.requests.gaps import first_denials
from grants.requests.proposals import wanted_question
from grants.requests.steps import record_step, request_transaction, stored_text
from grants.validity import Validity

MAX_PARTS = 10
# the parts of a request for the access of a colleague; further differences are left out
MAX_PARTS_LIKE_COLLEAGUE = 100


@frozen
class WantedAccess:
    """An operation or a privilege on an address. context: the parameters of the question, as in AuthZEN."""

    address: Address
    operation: str
    context: Mapping = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.operation} {self.address}"


@frozen
class RequestDraft:
    """The content of a new request. It has either `wanted` or `colleague`.

    colleague: the name of a user; the request is for the access that this user has and the subject lacks.
    requested_until: None for no end. subject: the user for whom access is requested; by default the author.
    idempotency_key: a repeated key of the same author returns the first request.
    """

    reason: str
    wanted: Sequence[WantedAccess] = ()
    colleague: str = ""
    requested_until: datetime | None = None
    subject: User | None = None
    idempotency_key: str = ""


def request_subject(account: User, principal: str, *, is_allowed_for_others: bool) -> User:
    """Return the user who will get the access.

    principal: the subject, such as `user:alice`. is_allowed_for_others: whether the account may request
    access for other users. Raise NotAdministrator if it may not, PrincipalError if the subject is not an
    active user.
    """
    if principal == f"user:{account.username}":
        return account
    if not is_allowed_for_others:
        raise NotAdministrator(
            f"your account can only request access for itself, which is user:{account.username}"
        )
    subject_type, _, name = principal.partition(":")
    subject = User.objects.filter(username=name, is_active=True).first() if subject_type == "user" else None
    if subject is None:
        raise PrincipalError(f"{clip(principal)} is not an active user")
    return subject


def create_request(*, author: Author, draft: RequestDraft) -> AccessRequest:
    """Store a request, with an event and journal lines.

    Raise RequestError or ValidityError if it is invalid, AlreadyPermitted if all of it is permitted,
    DuplicateRequest if it is pending already. The subject comes from `request_subject`, which checks that the
    author may request access for it.
    """
    reason, now = stored_text(draft.reason, "reason"), timezone.now()
    _check_content(draft, now)
    with request_transaction(author) as (head, account):
        if draft.idempotency_key and (first := request_with_key(account.pk, draft.idempotency_key)):
            return first
        subject = User.objects.filter(pk=(draft.subject or account).pk, is_active=True).first()
        if subject is None:
            raise RequestError("the subject of the request is not an active user")
        parts = _parts_like_colleague(draft.colleague, subject) if draft.colleague else _parts(draft, subject)
        _check_not_pending(subject, draft)
        request = AccessRequest.objects.create(
            subject=subject,
            subject_name=subject.username,
            creator=account,
            created_by=account.username,
            reason=reason,
            colleague=draft.colleague,
            requested_until=draft.requested_until,
            created_at=now,
            expires_at=_expiry(now, draft.requested_until),
            idempotency_key=draft.idempotency_key,
            maker_ids=sorted(accounts_of(author)),
        )
        for position, part in enumerate(parts, 1):
            part.request, part.position = request, position
        AccessRequestPart.objects.bulk_create(parts)
        named = "" if not draft.colleague else f"the access of user:{draft.colleague}"
        record_step(
            head,
            author,
            request,
            RequestEventKind.CREATED,
            reason,
            parts=() if draft.colleague else parts,
            detail=named,
        )
    return request


def request_with_key(account_id: int, key: str) -> AccessRequest | None:
    """Return the request that the account created with this idempotency key."""
    return (
        AccessRequest.objects.select_related("subject")
        .filter(creator=account_id, idempotency_key=key)
        .first()
    )


def requested_questions(draft: RequestDraft, subject: User, generation: Generation) -> list[Question]:
    """Return the questions of the wanted access. Raise RequestError if one can never be permitted."""
    questions = []
    for wanted in draft.wanted:
        try:
            question = wanted_question(
                subject.username, wanted.address, wanted.operation, dict(wanted.context), generation
            )
        except QuestionError as error:
            raise RequestError(f"{wanted} cannot be requested: {error}") from None
        fault = question.unknown_reason or instance_fault(wanted.address)
        if not fault and (question.policy is None or question.policy.requirement is None):
            fault = f"the `{generation.name}` generation has no rule for it, so no grant permits it"
        if fault:
            raise RequestError(f"{clip(wanted.operation)} {wanted.address} cannot be requested: {fault}")
        questions.append(question)
    return questions


def _check_content(draft: RequestDraft, now: datetime) -> None:
    if bool(draft.wanted) == bool(draft.colleague):
        raise RequestError("request an operation on an address, or the access of a colleague")
    if len(draft.wanted) > MAX_PARTS:
        raise RequestError(f"a request has at most {MAX_PARTS} parts: send several requests")
    if len({(wanted.address, wanted.operation) for wanted in draft.wanted}) < len(draft.wanted):
        raise RequestError("a part of the request is repeated: keep one of the two")
    if draft.colleague and (fault := name_fault(draft.colleague)):
        raise RequestError(fault)
    Validity.between(None, draft.requested_until).check_not_over(now)
    if len(draft.idempotency_key) > AccessRequest._meta.get_field("idempotency_key").max_length:
        raise RequestError("the idempotency key is too long")


def _parts(draft: RequestDraft, subject: User) -> list[AccessRequestPart]:
    """Return the parts that are not permitted all the time until the requested end. Raise AlreadyPermitted if
    there are none.

    A rule over all live entities of a container that the subject does not see counts as not met, because the
    decision would tell whether the container exists.
    """
    generation = active_generation()
    questions = requested_questions(draft, subject, generation)
    hidden = hidden_containers(
        questions, lambda addresses: containers_known_to(subject, generation, addresses)
    )
    denials = first_denials(questions, subject, draft.requested_until)
    missing = [
        wanted
        for wanted, denial in zip(draft.wanted, denials, strict=True)
        if wanted.address in hidden or denial is not None
    ]
    if not missing:
        raise AlreadyPermitted(
            f"{subject} can already {' and '.join(map(str, draft.wanted))}: there is nothing to request"
        )
    return [_part(wanted.address, wanted.operation, context=dict(wanted.context)) for wanted in missing]


def _part(address: Address, operation: str, **fields) -> AccessRequestPart:
    namespace = address.namespace
    return AccessRequestPart(
        kind=address.kind,
        key=address.key,
        namespace=namespace.key if namespace else "",
        operation=operation,
        **fields,
    )


def _parts_like_colleague(name: str, subject: User) -> list[AccessRequestPart]:
    """Return hidden parts for the access that the colleague has and the subject lacks; none if there is no
    such user.
    """
    colleague = User.objects.filter(username=name).exclude(pk=subject.pk).first()
    if colleague is None:
        return []
    missing = (
        difference for difference in differences(colleague, subject) if isinstance(difference, Join | Grant)
    )
    return [
        AccessRequestPart(group_name=difference.group, is_hidden=True)
        if isinstance(difference, Join)
        else _part(difference.address, difference.privilege.value, is_hidden=True)
        for difference in islice(missing, MAX_PARTS_LIKE_COLLEAGUE)
    ]


def _check_not_pending(subject: User, draft: RequestDraft) -> None:
    """Raise DuplicateRequest if a pending request has one of the parts; RequestError if there are too many
    requests.

    Requests of the last day that were decided or withdrawn count too, because approvers were notified of each
    of them.
    """
    pending = AccessRequest.objects.filter(
        subject=subject, state=RequestState.PENDING, expires_at__gt=timezone.now()
    )
    if draft.colleague and (first := pending.filter(colleague=draft.colleague).first()):
        raise DuplicateRequest(
            f"{first} for the access of user:{clip(draft.colleague)} is still pending", first.pk
        )
    for wanted in draft.wanted:
        first = pending.filter(
            parts__kind=wanted.address.kind,
            parts__key=wanted.address.key,
            parts__operation=wanted.operation,
            parts__state=RequestState.PENDING,
            parts__is_hidden=False,
        ).first()
        if first is not None:
            raise DuplicateRequest(f"{first} for {wanted} is still pending", first.pk)
    if pending.count() >= settings.REQUEST_MAX_PENDING:
        raise RequestError(
            f"{subject} has {settings.REQUEST_MAX_PENDING} pending requests, which is the limit: wait for a "
            f"decision, or withdraw one"
        )
    limit = settings.REQUEST_MAX_PER_DAY
    times = AccessRequest.objects.filter(subject=subject).order_by("-pk").values_list("created_at", flat=True)
    if (first := times[limit - 1 : limit].first()) and first > timezone.now() - timedelta(days=1):
        raise RequestError(
            f"there were {limit} requests for {subject} within a day, which is the limit: make the next one later"
        )


def _expiry(now: datetime, requested_until: datetime | None) -> datetime:
    """Return when a pending request expires: after REQUEST_EXPIRY_DAYS, but not later than the requested
    access ends.
    """
    end = now + timedelta(days=settings.REQUEST_EXPIRY_DAYS)
    return min(end, requested_until) if requested_until else end
