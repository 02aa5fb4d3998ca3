"""Validate the email field of forms.

Only forms are checked: REST clients and tenant documents may send any text that `grants.principals.services`
accepts.
"""

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from entities.vocabulary import clip
from grants.errors import PrincipalError


def email_from_form(data: Mapping[str, str]) -> str:
    """Return the field `email`, which may be empty. Raise PrincipalError if it is not an email address."""
    email = data.get("email", "").strip()
    if email:
        try:
            validate_email(email)
        except ValidationError:
            raise PrincipalError(
                f"`{clip(email)}` is not an email address. Enter one such as name@example.com"
            ) from None
    return email
