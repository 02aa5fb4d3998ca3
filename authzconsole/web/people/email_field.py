"""The email that a form sends. What services and tenant documents send is theirs to judge: only a form is mistyped in."""

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from entities.vocabulary import clip
from grants.errors import PrincipalError


def email_sent(data: Mapping[str, str]) -> str:
    """The field `email`, which may be empty. Raises PrincipalError where it is no address."""
    email = data.get("email", "").strip()
    if email:
        try:
            validate_email(email)
        except ValidationError:
            raise PrincipalError(f"`{clip(email)}` is no email address: write one such as name@example.com") from None
    return email
