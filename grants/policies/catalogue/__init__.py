"""Collect the generations of rules, by name, oldest first."""

from entities.errors import Refusal
from entities.vocabulary import clip
from grants.policies.catalogue.cdap65 import CDAP65
from grants.policies.catalogue.core import CORE
from grants.policies.catalogue.existing import EXISTING
from grants.policies.catalogue.final import FINAL
from grants.policies.catalogue.proposed import PROPOSED
from grants.policies.policy import Generation

GENERATIONS: dict[str, Generation] = {
    generation.name: generation for generation in (CORE, EXISTING, PROPOSED, FINAL, CDAP65)
}


class UnknownGeneration(Refusal, ValueError):
    """The generation is unknown. The message lists the known generations."""


def generation_by_name(name: object) -> Generation:
    """Return the generation of exactly that name. Raise UnknownGeneration if there is none."""
    if isinstance(name, str) and name in GENERATIONS:
        return GENERATIONS[name]
    raise UnknownGeneration(
        f"`{clip(name)}` is not a generation of rules; the generations are {', '.join(GENERATIONS)}"
    )
