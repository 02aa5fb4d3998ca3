"""Read query parameters as text that every database accepts."""

from collections.abc import Container

from django.http import HttpRequest

MAX_CHARACTERS = 600


def text_parameter(request: HttpRequest, name: str, *, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the parameter without surrounding spaces; empty if it is missing."""
    return name_parameter(request, name).strip()[:max_characters]


def name_parameter(request: HttpRequest, name: str) -> str:
    """Return the parameter with its spaces, because a name may start or end with a space; empty if it is
    missing.

    U+0000 is removed, because PostgreSQL does not accept it.
    """
    return request.GET.get(name, "").replace("\0", "")


def choice_parameter(request: HttpRequest, name: str, choices: Container[str]) -> str:
    """Return the parameter if it is one of `choices`, otherwise an empty string."""
    value = request.GET.get(name, "")
    return value if value in choices else ""


def number_parameter(request: HttpRequest, name: str) -> int | None:
    """Return the parameter as `number_of` does; None if it is missing."""
    return number_of(request.GET.get(name, ""))


def number_of(text: str) -> int | None:
    """Return a number of at most 17 digits; None if the text is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None
