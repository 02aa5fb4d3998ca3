"""Who is signed in in a browser."""

from django.test import Client

from grants.models import User


def account_name(client: Client) -> str:
    """Return the name of the signed-in account; empty without one."""
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key).username if key else ""


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session
