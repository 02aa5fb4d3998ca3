"""A decorator for classes with values that never change."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_Type = TypeVar("_Type")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_Type]) -> type[_Type]:
    """Make a class a frozen dataclass with slots."""
    return dataclass(frozen=True, slots=True)(cls)
