"""The names under which commands, migrations, schedules and the sign-in write journal lines.

Accounts cannot have these names.
"""

from django.core.management import get_commands

_APPS_WITH_COMMANDS = ("authzconsole", "grants", "analytics")
_COMMANDS_WITHOUT_LINES = ("analyze", "backup", "decide")
_OTHER_AUTHORS = (
    "figure_alert",
    "findings",
    "migrate",
    "periods",
    "review",
    "schedule_run",
    "security-events",
    "sign-in",
)
ACCOUNT_SUFFIX = " (account)"


def account_of_actor(actor: str) -> str:
    """Return the name of the account that wrote journal lines as this actor. Only reserved names have the suffix."""
    return actor.removesuffix(ACCOUNT_SUFFIX) if is_reserved_name(actor) else actor


def is_reserved_name(name: str) -> bool:
    """Return whether journal lines with this name as their actor can be from a command or from the sign-in."""
    name = name.removesuffix(ACCOUNT_SUFFIX)
    app = str(get_commands().get(name, "")).partition(".")[0]
    return app in _APPS_WITH_COMMANDS and name not in _COMMANDS_WITHOUT_LINES or name in _OTHER_AUTHORS
