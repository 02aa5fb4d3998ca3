"""Can this principal delete this namespace now? The immediate answer, for one; Spark answers for everybody."""

from dataclasses import dataclass

from entities.address import Address
from grants.evaluation.missing_summary import facts_in_short
from grants.models import User
from grants.policies.explain import Attempt, Gap, attempt, smallest_gap_counted
from grants.policies.policy import Generation
from grants.policies.question import Question


@dataclass(frozen=True, slots=True)
class Readiness:
    """required: how many entities the deletion needs ADMIN on. held: of those. missing: the first of the rest, in address order;
    missing_more: how many others there are."""

    required: int
    held: int
    missing: tuple[Gap, ...]
    missing_more: int

    @property
    def ready(self) -> bool:
        return not self.missing_total

    @property
    def missing_total(self) -> int:
        return len(self.missing) + self.missing_more


def readiness_of(namespace: Address, user: User, generation: Generation, *, most: int) -> Readiness:
    """What `user` holds and lacks of what deleting `namespace` requires in `generation`; of what lacks, about the first `most`
    are named. At most six queries."""
    question = Question("user", user.username, "delete", namespace, generation.name)
    facts, requires = facts_in_short(question, most), question.policy.requires
    required = _required(attempt(requires, question, facts))
    missing, more = smallest_gap_counted(requires, question, facts)
    return Readiness(required, required - len(missing) - more, missing, more)


def _required(node: Attempt) -> int:
    """How many entities the requirement looks at."""
    if node.requirement == "all live":
        return node.total
    return sum(_required(part) for part in node.parts) if node.parts else 1
