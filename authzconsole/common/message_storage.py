"""The storage of notices for the next page."""

from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage


class HostCookieStorage(CookieStorage):
    """Store notices in a cookie that browsers accept only over HTTPS and for this host."""

    cookie_name = "__Host-messages"


class HostMessageStorage(FallbackStorage):
    storage_classes = (HostCookieStorage, SessionStorage)
