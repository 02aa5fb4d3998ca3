"""Fields of models that several packages use."""

from typing import Any

from django.db import models


def optional_text(max_length: int | None = None, **options: Any) -> "models.Field[str, str]":
    """Return the field of a text that may be empty, and is by default. max_length: None for any length."""
    if max_length is None:
        return models.TextField(blank=True, default="", **options)
    return models.CharField(max_length=max_length, blank=True, default="", **options)
