"""The pages that an account can go to, and the actions that it can start: for the navigation, and for the search.

A page or action that the account may not use is in neither. The views check the access themselves.
"""

from enum import Enum

from entities.frozen import frozen
from grants.models import User
from grants.roles.capabilities import Capability

ENTITY_URL_NAMES = ("entity", "explorer", "grant", "revoke", "stewards", "lifecycle", "search", "forecast")


@frozen
class Destination:
    """A page that an account finds by its title.

    words: further words by which it is found. capabilities: only accounts with one of them can open the page; empty
    for every account. unless: accounts with one of these capabilities do not have it in the navigation.

    A page with `url_name_prefixes` is an item of the main navigation: the item of the current page is the first one
    with a prefix of its URL name. count_url_name: the page that returns the badge of the item.
    """

    title: str
    url_name: str
    words: str = ""
    capabilities: tuple[Capability, ...] = ()
    unless: tuple[Capability, ...] = ()
    icon: str = "console"
    url_name_prefixes: tuple[str, ...] = ()
    count_url_name: str = ""

    def is_for(self, user: User) -> bool:
        """Return whether the account can open the page."""
        return not self.capabilities or user.can(*self.capabilities)

    def is_in_navigation_of(self, user: User) -> bool:
        return bool(self.url_name_prefixes) and self.is_for(user) and not user.can(*self.unless)


PAGES = (
    Destination("Overview", "home", icon="overview", url_name_prefixes=("home",)),
    Destination(
        "Findings",
        "findings",
        "inbox attention problems notifications accept",
        icon="warning",
        url_name_prefixes=("finding",),
        count_url_name="finding-count",
    ),
    Destination("Explorer", "explorer", icon="namespace", url_name_prefixes=ENTITY_URL_NAMES),
    Destination("Ask", "ask", icon="ask", url_name_prefixes=("ask",)),
    Destination("My access", "my-access", icon="securekey", url_name_prefixes=("my-access",)),
    Destination(
        "Users and groups",
        "people",
        capabilities=(Capability.READ_ALL, Capability.READ_ACCOUNTS),
        icon="group",
        url_name_prefixes=("people", "person", "membership", "account", "token", "limited"),
    ),
    Destination(
        "Requests",
        "requests",
        icon="requests",
        url_name_prefixes=("request",),
        count_url_name="request-count",
    ),
    Destination(
        "Plans", "plans", capabilities=(Capability.READ_ALL,), icon="plans", url_name_prefixes=("plan",)
    ),
    Destination(
        "Reviews", "reviews", icon="reviews", url_name_prefixes=("review",), count_url_name="review-count"
    ),
    Destination("Policies", "policies", icon="policies", url_name_prefixes=("policies", "generation")),
    Destination(
        "Connections",
        "connections",
        "platform hive metastore cdap ranger sync drift",
        (Capability.READ_ALL,),
        icon="application",
        url_name_prefixes=("connection",),
    ),
    Destination(
        "Analyses",
        "analyses",
        "reports",
        (Capability.READ_REPORTS,),
        icon="analyses",
        url_name_prefixes=("analys", "trends"),
    ),
    Destination(
        "Journal",
        "journal",
        "history",
        (Capability.READ_JOURNAL,),
        icon="journal",
        url_name_prefixes=("journal",),
    ),
    # accounts that can read the journal open it from there
    Destination(
        "Security events",
        "journal-security-events",
        "sign-ins audit log",
        capabilities=(Capability.READ_SECURITY_EVENTS,),
        unless=(Capability.READ_JOURNAL,),
        icon="journal",
        url_name_prefixes=("journal-security",),
    ),
    Destination(
        "Status",
        "status",
        "health",
        (Capability.READ_REPORTS,),
        icon="status",
        url_name_prefixes=("status",),
    ),
    Destination(
        "Add a user or group",
        "people-add",
        "new create person onboard",
        (Capability.CHANGE_GRANTS, Capability.MANAGE_ACCOUNTS),
    ),
    Destination(
        "Invite users", "account-invite", "invitation link password onboard", (Capability.MANAGE_ACCOUNTS,)
    ),
    Destination("Compare users", "people-compare", "differences alike", (Capability.READ_ALL,)),
    Destination(
        "Access like a colleague",
        "people-like",
        "onboard copy access grants same",
        (Capability.CHANGE_GRANTS,),
    ),
    Destination("Bulk change", "plan-bulk-change", "plan many grant revoke", (Capability.CHANGE_GRANTS,)),
    Destination("Import changes", "plan-import", "plan file csv", (Capability.CHANGE_GRANTS,)),
    Destination(
        "Guardrails",
        "policies-guardrails",
        "rules forbid separation of duties sod violations exceptions",
        (Capability.READ_ALL,),
    ),
    Destination(
        "New guardrail",
        "policies-guardrail-new",
        "add rule forbid require expect",
        (Capability.MANAGE_SETTINGS,),
    ),
    Destination("Acceptance rules", "finding-rules", "findings accept suppress", (Capability.READ_JOURNAL,)),
    Destination(
        "Limited access",
        "limited-access",
        "validity period expiry expired ends begins",
        (Capability.READ_ALL,),
    ),
    Destination("Catalogue", "request-catalogue", "request publish requestable access"),
    Destination("Request access", "request-new", "new ask permission denied"),
    Destination("Approvers", "request-approvers", "requests group namespace", (Capability.READ_ALL,)),
    Destination("Delegation", "delegation-limits", "limits owners", (Capability.READ_ALL,)),
    Destination(
        "Start review", "review-new", "access review campaign certification", (Capability.CHANGE_GRANTS,)
    ),
    Destination("New connection", "connection-new", "add platform hive cdap", (Capability.MANAGE_SETTINGS,)),
    Destination("Trends", "trends", "figures over time charts nights history", (Capability.READ_REPORTS,)),
    Destination("Evidence", "evidence-list", "auditor bundle signed", (Capability.READ_JOURNAL,)),
    Destination(
        "Differences", "journal-differences", "compare dates history changes", (Capability.READ_JOURNAL,)
    ),
    Destination("Break-glass access", "journal-break-glass", "emergency", (Capability.READ_JOURNAL,)),
    Destination("Verify journal", "journal-proof", "proof hash chain head", (Capability.READ_JOURNAL,)),
    Destination("Webhooks", "journal-webhooks", "events notifications", (Capability.READ_JOURNAL,)),
    Destination("API tokens", "tokens", "service accounts", (Capability.READ_ACCOUNTS,)),
    Destination("Sessions", "sessions", "settings signed in devices"),
    Destination("Password", "password", "settings change"),
    Destination("Second factor", "second-factor", "settings authenticator passkey recovery codes mfa"),
    Destination("Time zone", "time-zone", "settings clock local utc"),
    Destination("API documentation", "rest-swagger", "rest openapi swagger"),
)


class Target(Enum):
    """What an action is done with. The value is shown where the target is missing."""

    ENTITY = "an address"
    GRANTABLE = "on an address or a pattern"
    USER = "a user"
    GROUP = "a group"


@frozen
class Action:
    """An action that the search starts by a verb and its target, such as `off-board grace.kim`.

    title: with `{}` for the target. verbs: lower-case words that begin the text. parameter: the query parameter of the
    page that takes the target; empty if the URL ends with the target.
    """

    title: str
    verbs: tuple[str, ...]
    target: Target
    url_name: str
    parameter: str = ""
    capabilities: tuple[Capability, ...] = ()

    def is_for(self, user: User) -> bool:
        """Return whether the account may start the action; with a target of type GRANTABLE it depends on the target."""
        return not self.capabilities or user.can(*self.capabilities)

    def target_text(self, text: str) -> str | None:
        """Return the target in a text that begins with a verb; None if the text does not begin with one."""
        words = text.lower().split()
        if not words or words[0] not in self.verbs:
            return None
        return " ".join(text.split()[1:])

    def is_begun_by(self, text: str) -> bool:
        """Return whether the text is the beginning of a verb, or empty."""
        return any(verb.startswith(text.lower()) for verb in self.verbs)


ACTIONS = (
    Action("Grant on {}", ("grant", "give"), Target.GRANTABLE, "grant"),
    Action("Revoke on {}", ("revoke",), Target.GRANTABLE, "revoke"),
    Action("Ask about {}", ("ask",), Target.USER, "ask", "subject", (Capability.READ_ALL,)),
    Action("Ask about {}", ("ask",), Target.ENTITY, "ask", "entity"),
    Action("Request access to {}", ("request",), Target.ENTITY, "request-new", "entity"),
    Action(
        "Create evidence about {}",
        ("evidence", "audit"),
        Target.ENTITY,
        "evidence-list",
        "entity",
        (Capability.READ_JOURNAL,),
    ),
    Action(
        "Off-board {}",
        ("off-board", "offboard", "leave"),
        Target.USER,
        "person-off-board",
        capabilities=(Capability.READ_ALL,),
    ),
    Action(
        "Add access like a colleague to {}",
        ("like", "copy", "onboard"),
        Target.USER,
        "people-like",
        "target",
        (Capability.CHANGE_GRANTS,),
    ),
    Action("Compare {}", ("compare",), Target.USER, "people-compare", "one", (Capability.READ_ALL,)),
    Action(
        "Change members of {}",
        ("members",),
        Target.GROUP,
        "group-members",
        capabilities=(Capability.CHANGE_GRANTS,),
    ),
)
