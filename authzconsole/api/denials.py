"""Offer an access request with a denial, as the AuthZEN access request profile (ARAP, a draft) describes.

The offer is added only if `context.access_request` is true. It depends on the question alone, so it tells
nothing about the resource. Its `evaluation_id` is signed, which binds a request to the denied question
without storing it.
"""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.core import signing
from django.urls import reverse

from authzconsole.api.endpoint import REQUEST_PATH
from authzconsole.common.api_caller import Caller
from entities.errors import Refusal
from grants.policies.question import Question, QuestionError, question_from_json
from grants.validity import format_time

OPT_IN = "access_request"
SALT = "authzconsole.api.denial"
VALID_FOR = timedelta(minutes=10)
REASON, TEMPLATE = "approval_required", "approval"


class InvalidDenial(Refusal):
    """The denial does not belong to the request, or was altered."""

    problem_type = "invalid_denial_binding"


class ExpiredDenial(Refusal):
    """The denial is too old."""

    status = 410
    problem_type = "expired_denial"


def with_offers(caller: Caller, bodies: list, answers: list[dict]) -> list[dict]:
    """Return the answers, with an offer in each denial of a question that opts in and that grants could
    permit.
    """
    return [
        _with_offer(caller, body, answer) if _opts_in(body) and not answer["decision"] else answer
        for body, answer in zip(bodies, answers, strict=True)
    ]


def is_requestable(question: Question, active_generation: str) -> bool:
    """Return whether grants to a user could permit the question in the active generation."""
    policy = question.policy
    return (
        question.subject_type == "user"
        and policy is not None
        and policy.requirement is not None
        and question.generation == active_generation
    )


def check_denial(evaluation_id: object, question: Question) -> None:
    """Raise InvalidDenial unless the id belongs to a denial of this question; ExpiredDenial if the denial is
    too old.
    """
    try:
        bound = (
            signing.loads(evaluation_id, salt=SALT, max_age=VALID_FOR)
            if isinstance(evaluation_id, str)
            else None
        )
    except signing.SignatureExpired:
        raise ExpiredDenial("the denial has expired: ask again") from None
    except (signing.BadSignature, ValueError, UnicodeError):
        bound = None
    if bound != _identity(question):
        raise InvalidDenial("`denial.evaluation_id` does not belong to a denial of this question")


def _opts_in(body: object) -> bool:
    context = body.get("context") if isinstance(body, dict) else None
    # an answer about another time or the past is no reason to request access
    return isinstance(context, dict) and context.get(OPT_IN) is True and not {"at", "as_of"} & context.keys()


def _with_offer(caller: Caller, body: dict, answer: dict) -> dict:
    try:
        question = question_from_json(body, active_generation=caller.generation)
    except QuestionError:
        return answer
    if not is_requestable(question, caller.generation):
        return answer
    now = datetime.now(UTC)
    form = f"{reverse('request-new')}?{urlencode({'entity': str(question.target), 'operation': question.operation})}"
    return answer | {
        "context": {
            **answer.get("context", {}),
            "evaluation_id": signing.dumps(_identity(question), salt=SALT),
            "evaluated_at": format_time(now),
            "reason": REASON,
            "access_request": {
                "endpoint": f"{settings.PUBLIC_URL}/{REQUEST_PATH}",
                "template": TEMPLATE,
                "expires_at": format_time(now + VALID_FOR),
                "display": {
                    "title": "Request access",
                    "description": f"{question.operation} {question.target}",
                },
                "form_url": f"{settings.PUBLIC_URL}{form}",
            },
        }
    }


def _identity(question: Question) -> list:
    """Return the parts of a question that must be the same in the denial and in the request."""
    parameters = (question.artifact, question.artifact_is_new, question.dataset_type, question.owner)
    return [question.principal, question.operation, str(question.target), *map(str, parameters)]
