"""The kinds of security events."""

from django.db.models import TextChoices


class EventKind(TextChoices):
    """The kind of an event. Kinds that come from a journal line have the name of its action."""

    SIGN_IN = "sign-in", "Signed in"
    SIGN_IN_FAILURE = "sign-in-failure", "Failed sign-in"
    BREAK_GLASS = "break-glass", "Break-glass account used"
    BREAK_GLASS_START = "break-glass-start", "Break-glass access started"
    BREAK_GLASS_END = "break-glass-end", "Break-glass access ended"
    BREAK_GLASS_REVIEW = "break-glass-review", "Break-glass access reviewed"
    SIGN_OUT = "sign-out", "Signed out"
    DENIAL = "denial", "Access denied"
    SEE_AS_START = "see-as-start", "Started to see as another user"
    SEE_AS_STOP = "see-as-stop", "Stopped to see as another user"
    DOWNLOAD = "download", "Download"
    TOKEN_REJECTED = "token-rejected", "Token rejected"
    TOKEN_ADD = "token-add", "Token created"
    TOKEN_REVOKE = "token-revoke", "Token revoked"
    ROLE_SET = "role-set", "Console role changed"
    IDENTITY_LINK = "identity-link", "Identity linked"
    IDENTITY_UNLINK = "identity-unlink", "Identity unlinked"
    FACTOR_ADD = "factor-add", "Second factor added"
    FACTOR_REMOVE = "factor-remove", "Second factor removed"
    FACTOR_RESET = "factor-reset", "Second factors reset"
    PASSWORD_SET = "password-set", "Password set"
    GENERATION_ACTIVATE = "generation-activate", "Generation activated"
    GENERATION_PROPOSE = "generation-propose", "Generation proposed"
    SCHEDULE_ON = "schedule-on", "Nightly run switched on"
    SCHEDULE_OFF = "schedule-off", "Nightly run switched off"
    SCHEDULE_CHANGE = "schedule-change", "Nightly run changed"
    RUN_START = "run-start", "Run started"
    RUN_CANCEL = "run-cancel", "Run cancelled"
    PLAN_DISCARD = "plan-discard", "Plan discarded"
    SEAL = "seal", "Journal sealed"
    SESSIONS_END = "sessions-end", "Sessions ended"
    SIGN_IN_LIMITS_CLEAR = "sign-in-limits-clear", "Sign-in limits cleared"
    WEBHOOK_ADD = "webhook-add", "Webhook created"
    WEBHOOK_CHANGE = "webhook-change", "Webhook changed"
    WEBHOOK_DELETE = "webhook-delete", "Webhook deleted"
    STORAGE_IDENTITY = "storage-identity", "Storage identity changed"
    REQUEST_APPROVE = "request-approve", "Access request approved"
    REQUEST_DENY = "request-deny", "Access request denied"
    APPROVERS_SET = "approvers-set", "Approvers of a namespace changed"
    DELEGATION_SET = "delegation-set", "Limits of delegation changed"
    STEWARD_ADD = "steward-add", "Data steward assigned"
    STEWARD_REMOVE = "steward-remove", "Data steward removed"


# callers without valid credentials can cause these, so their number is limited (see `limits`)
FAILURES = frozenset({EventKind.SIGN_IN_FAILURE, EventKind.DENIAL, EventKind.TOKEN_REJECTED})
FROM_JOURNAL = frozenset(
    {
        EventKind.TOKEN_ADD,
        EventKind.TOKEN_REVOKE,
        EventKind.ROLE_SET,
        EventKind.STEWARD_ADD,
        EventKind.STEWARD_REMOVE,
        EventKind.PASSWORD_SET,
        EventKind.IDENTITY_LINK,
        EventKind.IDENTITY_UNLINK,
        EventKind.FACTOR_ADD,
        EventKind.FACTOR_REMOVE,
        EventKind.FACTOR_RESET,
        EventKind.GENERATION_ACTIVATE,
        EventKind.SCHEDULE_ON,
        EventKind.SCHEDULE_OFF,
        EventKind.SCHEDULE_CHANGE,
        EventKind.RUN_START,
        EventKind.RUN_CANCEL,
        EventKind.PLAN_DISCARD,
        EventKind.SEAL,
        EventKind.STORAGE_IDENTITY,
        EventKind.SESSIONS_END,
        EventKind.SIGN_IN_LIMITS_CLEAR,
        EventKind.WEBHOOK_ADD,
        EventKind.WEBHOOK_CHANGE,
        EventKind.WEBHOOK_DELETE,
        EventKind.BREAK_GLASS_START,
        EventKind.BREAK_GLASS_END,
        EventKind.BREAK_GLASS_REVIEW,
        EventKind.REQUEST_APPROVE,
        EventKind.REQUEST_DENY,
        EventKind.APPROVERS_SET,
        EventKind.DELEGATION_SET,
        EventKind.GENERATION_PROPOSE,
    }
)
