"""What the URL of a page asks for, as text that every database takes."""

from collections.abc import Container

from django.http import HttpRequest

MOST_CHARACTERS = 600


def text_parameter(request: HttpRequest, name: str, *, max_characters: int = MOST_CHARACTERS) -> str:
    """What was typed, without the spaces around it; empty where it is not given."""
    return name_parameter(request, name).strip()[:max_characters]


def name_parameter(request: HttpRequest, name: str) -> str:
    """A name as it is written, which may begin or end with a space; without U+0000, which PostgreSQL refuses."""
    return request.GET.get(name, "").replace("\0", "")


def choice_parameter(request: HttpRequest, name: str, choices: Container[str]) -> str:
    """The parameter where it is one of `choices`, else empty."""
    value = request.GET.get(name, "")
    return value if value in choices else ""
