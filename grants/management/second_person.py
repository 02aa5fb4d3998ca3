"""The option `--second-person` of commands that change grants, for FOUR_EYES.

The console cannot verify who starts a command, so the option is a statement that the journal records.
"""

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from entities.vocabulary import clip
from grants.models import User, all_grants
from grants.roles.capabilities import Capability, roles_with


def add_second_person_argument(parser: CommandParser) -> None:
    parser.add_argument(
        "--second-person", metavar="NAME", help="with FOUR_EYES: the account of the administrator who agreed"
    )


def reason_with_second_person(reason: str, name: str | None) -> str:
    """Return the reason of a change with the person who agreed. Without FOUR_EYES, the name is optional.

    Raise CommandError if the name is missing or is not that of an active administrator. A console without
    grants, as before its first import, needs no second person.
    """
    if not name:
        if settings.FOUR_EYES and any(grants.exists() for grants in all_grants()):
            raise CommandError(
                "with FOUR_EYES, a second person must agree to this change: name the account of this "
                "administrator with --second-person NAME. The journal records it."
            )
        return reason
    administrators = User.objects.filter(
        role__in=roles_with(Capability.CHANGE_GRANTS), is_active=True, is_service=False
    )
    if not administrators.filter(username=name).exists():
        raise CommandError(f"--second-person: `{clip(name)}` is not an active administrator of this console")
    return "; ".join(filter(None, (reason, f"agreed with {name}")))
