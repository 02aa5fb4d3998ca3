"""Messages that pages and REST share, and the storage of notices."""

from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage

from grants.roles.capabilities import Capability, role_names

READ_ONLY_ACCOUNT = (
    "Your account can view this, but not change it. Only administrators of the console can make changes."
)


def as_sentence(message: object) -> str:
    """Return an error or a text as a sentence: with a capital letter at the beginning and a full stop at the
    end.

    A principal or an address at the beginning keeps its case.
    """
    text = str(message).removesuffix(".")
    is_name = ":" in text.partition(" ")[0].rstrip(":")
    return f"{text}." if is_name else f"{text[:1].upper()}{text[1:]}."


def read_only_message(*capabilities: Capability) -> str:
    """Return the message for an account that can view a page, but has none of the capabilities to change
    something on it.
    """
    if Capability.CHANGE_GRANTS in capabilities:
        return READ_ONLY_ACCOUNT
    return f"Your account can view this, but not change it. Only {role_names(*capabilities)} of the console can make changes."


def unreadable_message(*capabilities: Capability) -> str:
    """Return the message for an account that has none of the capabilities to read something."""
    return f"only {role_names(*capabilities)} of this console can read this"


class HostCookieStorage(CookieStorage):
    """Store notices in a cookie that browsers accept only over HTTPS and for this host."""

    cookie_name = "__Host-messages"


class HostMessageStorage(FallbackStorage):
    storage_classes = (HostCookieStorage, SessionStorage)
