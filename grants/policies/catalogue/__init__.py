"""The four generations of rules, by name, oldest first."""

from entities.vocabulary import clip
from grants.policies.catalogue.core import CORE
from grants.policies.catalogue.existing import EXISTING
from grants.policies.catalogue.final import FINAL
from grants.policies.catalogue.proposed import PROPOSED
from grants.policies.policy import Generation

GENERATIONS: dict[str, Generation] = {generation.name: generation for generation in (CORE, EXISTING, PROPOSED, FINAL)}


class UnknownGeneration(ValueError):
    """A generation that the catalogue does not hold; the message says which it does."""


def generation_by_name(name: object) -> Generation:
    """The generation of exactly that name. Raises UnknownGeneration naming the four."""
    if isinstance(name, str) and name in GENERATIONS:
        return GENERATIONS[name]
    raise UnknownGeneration(f"`{clip(name)}` is not a generation of rules; the generations are {', '.join(GENERATIONS)}")
