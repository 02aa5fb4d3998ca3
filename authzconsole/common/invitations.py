"""Invitations: one-time links with which users without a password choose their first one.

A link is a token of Django's password reset, so nothing is stored: it depends on the stored password, which another
invitation and the choice of a password replace, and ends after FIRST_PASSWORD_HOURS (PASSWORD_RESET_TIMEOUT).
"""

import logging
from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.mail import EmailMessage, get_connection
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from authzconsole.common.mail import send_message
from entities.frozen import frozen
from grants.authority.stewards import stewarded_namespaces
from grants.errors import PrincipalError
from grants.journal import Author
from grants.models import User
from grants.principals.services import begin_invitation

logger = logging.getLogger(__name__)


class InvitationTokens(PasswordResetTokenGenerator):
    """The tokens of links. Their own salt makes them useless for anything else.

    A token depends on the console role and the stewardships of the user, so that who made the link, and could not manage the
    account any more, cannot use it. Making and checking one runs one query.
    """

    key_salt = "authzconsole.common.invitations"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        rights = [user.role, *sorted(stewarded_namespaces(user))]
        return f"{super()._make_hash_value(user, timestamp)}{rights}"


invitation_tokens = InvitationTokens()


@frozen
class Invitation:
    """A link that is shown once, or sent to the e-mail address of the user. It is a secret."""

    name: str
    email: str
    url: str


def can_be_invited(user: User) -> bool:
    """Return whether a link may set the password of the user: it is the first one, and passwords may be used."""
    return (
        user.is_active
        and not user.is_service
        and not user.has_usable_password()
        and settings.LOCAL_SIGN_IN == "all"
    )


def invite(*, author: Author, name: str) -> Invitation:
    """Invite a user who has no password. Raise PrincipalError if the user cannot be invited, NotAdministrator."""
    if settings.LOCAL_SIGN_IN != "all":
        raise PrincipalError("users sign in with a provider here (LOCAL_SIGN_IN), so they need no password")
    user = begin_invitation(author=author, name=name)
    token = invitation_tokens.make_token(user)
    path = reverse("invitation", args=[urlsafe_base64_encode(force_bytes(user.pk)), token])
    return Invitation(user.username, user.email, f"{settings.PUBLIC_URL}{path}")


def send_invitations(invitations: Iterable[Invitation]) -> set[str]:
    """Send the links by e-mail if a mail server is configured. Return the names of the users who were sent one."""
    due = [invitation for invitation in invitations if settings.EMAIL_HOST and invitation.email]
    sent: set[str] = set()
    if not due:
        return sent
    try:
        with get_connection() as connection:
            for invitation in due:
                if send_message(_message(invitation), connection):
                    sent.add(invitation.name)
    except OSError as error:
        logger.error("invitations were not sent, because the mail server failed (%s)", type(error).__name__)
    return sent


def _message(invitation: Invitation) -> EmailMessage:
    context = {"invitation": invitation, "hours": settings.FIRST_PASSWORD_HOURS}
    text = render_to_string("accounts/mail/invitation.txt", context)
    return EmailMessage("Your account in the authorization console", text, to=[invitation.email])
