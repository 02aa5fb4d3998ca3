"""The settings of the pipeline. In the console they are those of Django; a standalone job sets its own, without Django.

Modules that the job needs import `settings` from here.
"""

from typing import Any


class _Settings:
    """Reads each setting from the object of the last call of `use_settings`."""

    def __init__(self) -> None:
        self._source: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


settings = _Settings()


def use_settings(source: object) -> None:
    """Read the settings from the attributes of this object from now on."""
    settings._source = source
