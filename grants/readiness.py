"""Can this principal delete this namespace now? The immediate answer, for one; Spark answers for everybody."""

from dataclasses import dataclass

from entities.address import Address
from grants.facts import gather
from grants.models import User
from grants.policies.explain import Attempt, Gap, attempt, smallest_gap
from grants.policies.policy import Generation
from grants.policies.question import Question


@dataclass(frozen=True, slots=True)
class Readiness:
    """required: how many entities the deletion needs ADMIN on. held: of those. missing: the rest, in address order."""

    required: int
    held: int
    missing: tuple[Gap, ...]

    @property
    def ready(self) -> bool:
        return not self.missing


def readiness_of(namespace: Address, user: User, generation: Generation) -> Readiness:
    """What `user` holds and lacks of what deleting `namespace` requires in `generation`. One query."""
    question = Question("user", user.username, "delete", namespace, generation.name)
    (facts,) = gather([question], explained=True)
    requires = question.policy.requires
    required = _required(attempt(requires, question, facts))
    missing = smallest_gap(requires, question, facts)
    return Readiness(required, required - len(missing), missing)


def _required(node: Attempt) -> int:
    """How many entities the requirement looks at."""
    if node.requirement == "all live":
        return node.total
    return sum(_required(part) for part in node.parts) if node.parts else 1
