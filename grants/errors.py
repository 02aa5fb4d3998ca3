"""Define the errors of the services. A service that raises one of these errors has written nothing."""

from entities.errors import Refusal
from entities.frozen import frozen


class GrantError(Refusal, ValueError):
    """The change was refused. The message says what is wrong, where, and how to correct it."""


class JournalReadOnly(Refusal):
    """The journal cannot be signed, so nothing can be changed. The message names the key at fault."""

    status = 503
    problem_type = "read-only"

    @property
    def detail(self) -> str:
        return f"this console is read-only: {self}; nothing was changed"


class NotAdministrator(GrantError):
    """The author is not an administrator of this console."""

    status = 403


class ReasonMissing(GrantError):
    """The change needs a reason (REASON_REQUIRED)."""


class SecondPersonRequired(GrantError):
    """The change needs a plan that another person applies (FOUR_EYES), or the plan was made by the person who
    applies it.
    """

    status = 403
    problem_type = "second-person-required"


class StaleBase(GrantError):
    """The change is based on a revision that is no longer the newest."""

    status = 409
    problem_type = "stale-base"

    def __init__(self, base_revision: int, revision: int):
        self.base_revision, self.revision = base_revision, revision
        self.members = {"base_revision": base_revision, "revision": revision}
        super().__init__(
            f"the change was made for revision {base_revision}, but the console is at revision {revision}: "
            f"look at what changed since, and make the change for revision {revision}"
        )


@frozen
class RefusedChange:
    """An invalid change of a change set.

    index: from 0, among the changes with the same verb. field: `user` or `group` if the principal of this
    type does not exist.
    """

    verb: str
    index: int
    message: str
    field: str = ""


class ChangeRefused(GrantError):
    """Changes of a change set are invalid. errors: each invalid change. is_single: the set has no other one."""

    def __init__(self, errors: list[RefusedChange], *, is_single: bool = False):
        self.errors = errors
        super().__init__(
            errors[0].message
            if is_single
            else "\n".join(f"{error.verb}[{error.index}]: {error.message}" for error in errors)
        )


class PrincipalError(GrantError):
    """A user or group cannot be created or changed. field: `user` or `group` if the principal of this type
    does not exist.
    """

    status = 409


class GuardrailError(GrantError):
    """A guardrail, or an exception from one, is invalid. field: the member at fault, such as `forbid.within`."""

    def __init__(self, message: str, *, field: str = ""):
        self.reason = message
        super().__init__(f"`{field}`: {message}" if field else message, field=field)


class GuardrailHolds(GrantError):
    """A guardrail refuses a change, because the change would add a violation. violations: the rows to name."""

    status = 409
    problem_type = "guardrail-violated"

    def __init__(self, message: str, violations: list[dict[str, str]]):
        self.members = {"violations": violations}
        super().__init__(message)


class GuardrailViolated(GrantError):
    """A new guardrail that blocks is violated already, and this was not confirmed. count: of the violations."""

    status = 409
    problem_type = "guardrail-violated-already"

    def __init__(self, message: str, count: int):
        self.count, self.members = count, {"count": count}
        super().__init__(message)


class StewardError(GrantError):
    """A data steward cannot be assigned."""


class LifecycleError(GrantError):
    """An entity cannot be registered, deleted or recreated now."""

    status = 409


class PlanError(GrantError):
    """A plan cannot be created, or cannot be applied, discarded or undone in its current state."""

    status = 409


class StalePlan(StaleBase):
    """The plan is stale. line: a summary of the first journal line that made it stale."""

    def __init__(self, plan: str, base_revision: int, revision: int, line: str):
        super().__init__(base_revision, revision)
        self.args = (
            f"{plan} was created at revision {base_revision:,}, and data on which it depends has changed since: {line}; "
            f"renew the plan, review the new one, and apply that",
        )


class RequestError(GrantError):
    """A request for access cannot be created or answered. The message says why."""


class AlreadyPermitted(RequestError):
    """The requested access exists already."""

    status = 409
    problem_type = "already-permitted"


class DuplicateRequest(RequestError):
    """The same access was requested before, and this request is still pending. request_id: its number."""

    status = 409
    problem_type = "duplicate-request"

    def __init__(self, message: str, request_id: int):
        self.request_id, self.members = request_id, {"request": request_id}
        super().__init__(message)


class RequestClosed(RequestError):
    """The request is no longer pending."""

    status = 409


class NotApprover(RequestError):
    """The account may not decide about this request, or not about this part of it."""

    status = 403


class EffectTooLarge(GrantError):
    """The effect of a change is too large to be computed.

    counted: `entities`, `grants`, or `pairs` of users and entities; the attribute is in words. limit: how
    many are allowed.
    """

    status = 409
    problem_type = "effect-too-large"

    def __init__(self, counted: str, limit: int):
        self.counted, self.limit = "pairs of users and entities" if counted == "pairs" else counted, limit
        super().__init__(
            f"the effect cannot be computed: {self.reach}, which is the limit of this console (the setting "
            f"EFFECT_MAX_{counted.upper()}); divide the change into smaller ones"
        )

    @property
    def reach(self) -> str:
        return f"the change reaches more than {self.limit:,} {self.counted}"


class EffectChanged(GrantError):
    """The effect of a change is no longer the one that was shown.

    change: such as `plan 7`. preview: the change with its new effect, if known.
    """

    status = 409
    problem_type = "effect-changed"

    def __init__(self, change: str, preview: object = None):
        self.preview = preview
        super().__init__(
            f"the effect of {change} has changed since it was shown: look at the new effect, and confirm it"
        )


class EffectNotShown(GrantError):
    """The effect of a change was not shown, although it goes beyond the purpose of the change or is too large
    to be computed.

    preview: the change with its effect.
    """

    def __init__(self, preview: object):
        self.preview = preview
        super().__init__("nothing was changed yet: look at the effect, and confirm it")


class EffectUnconfirmed(GrantError):
    """A change gives permissions as side effects, and this was not confirmed."""

    status = 409
    problem_type = "unconfirmed-effect"


class DelegationError(GrantError):
    """The limits of delegation are invalid. field: `privileges`, `kinds` or `max_days`."""
