"""The table of console roles and capabilities.

Pages, REST, services and commands ask for a capability, never for a role. docs/concepts/roles.md has the same table.
"""

from enum import StrEnum

from django.db.models import TextChoices

from entities.vocabulary import join_words


class Role(TextChoices):
    """The console role of an account. It grants no access to data."""

    ORDINARY = "ordinary", "User"
    AUDITOR = "auditor", "Auditor"
    ADMINISTRATOR = "administrator", "Administrator"
    SECURITY_ADMINISTRATOR = "security-administrator", "Security administrator"
    APPROVER = "approver", "Approver"
    OPERATOR = "operator", "Operator"


class Capability(StrEnum):
    """What an account may do in the console, on all entities or accounts. docs/concepts/roles.md describes each one."""

    READ_ALL = "read_all"
    READ_JOURNAL = "read_journal"
    READ_REPORTS = "read_reports"
    READ_ACCOUNTS = "read_accounts"
    READ_SECURITY_EVENTS = "read_security_events"
    SEE_AS = "see_as"
    APPROVE = "approve"
    CHANGE_GRANTS = "change_grants"
    MANAGE_ACCOUNTS = "manage_accounts"
    MANAGE_TOKENS = "manage_tokens"
    RUN_ANALYSES = "run_analyses"
    MANAGE_SETTINGS = "manage_settings"


CAPABILITIES: dict[Role, frozenset[Capability]] = {
    Role.ORDINARY: frozenset(),
    Role.AUDITOR: frozenset(
        {
            Capability.READ_ALL,
            Capability.READ_JOURNAL,
            Capability.READ_REPORTS,
            Capability.READ_ACCOUNTS,
            Capability.READ_SECURITY_EVENTS,
            Capability.SEE_AS,
        }
    ),
    Role.ADMINISTRATOR: frozenset(Capability),
    Role.SECURITY_ADMINISTRATOR: frozenset(
        {
            Capability.READ_ACCOUNTS,
            Capability.READ_SECURITY_EVENTS,
            Capability.MANAGE_ACCOUNTS,
            Capability.MANAGE_TOKENS,
        }
    ),
    Role.APPROVER: frozenset({Capability.READ_ALL, Capability.APPROVE}),
    Role.OPERATOR: frozenset({Capability.READ_REPORTS, Capability.RUN_ANALYSES}),
}

# with one of these, an account can change something over REST
CHANGING_CAPABILITIES = frozenset(
    {
        Capability.APPROVE,
        Capability.CHANGE_GRANTS,
        Capability.MANAGE_ACCOUNTS,
        Capability.MANAGE_TOKENS,
        Capability.RUN_ANALYSES,
        Capability.MANAGE_SETTINGS,
    }
)


# Accounts with these roles may change grants by delegation (grants.authority.delegation). The other roles
# must not change grants.
DELEGATE_ROLES = (Role.ORDINARY, Role.APPROVER, Role.ADMINISTRATOR)


def capabilities_of(role: str) -> frozenset[Capability]:
    """Return the capabilities of a role; none for an unknown role."""
    return CAPABILITIES.get(role, frozenset())


def roles_with(*capabilities: Capability) -> list[Role]:
    """Return the roles that have at least one of the capabilities."""
    return [role for role, given in CAPABILITIES.items() if given.intersection(capabilities)]


def role_includes(role: str, other: str) -> bool:
    """Return whether a role has every capability of the other one.

    An account manages only accounts whose role its own role includes. Otherwise it could reset a password,
    sign in with it, and do more than its own role allows.
    """
    return capabilities_of(role) >= capabilities_of(other)


def role_names(*capabilities: Capability) -> str:
    """Return the roles with one of the capabilities as text, such as `administrators and auditors`, most
    powerful first.
    """
    roles = sorted(roles_with(*capabilities), key=lambda role: (-len(CAPABILITIES[role]), role))
    return join_words([f"{role.label.lower()}s" for role in roles])
