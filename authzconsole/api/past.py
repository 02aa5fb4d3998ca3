"""Answer AuthZEN requests with `context.at` or `context.as_of`: evaluate them at another time, or with an
earlier state.

A caller that may only ask about itself may do so for other times, too. Its explanations show the entities
that it sees now, and rules over all live entities read the containers that it knows now.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from authzconsole.common.api_caller import Caller
from entities.address import Address
from grants.active_generation import active_generation
from grants.evaluation.engine import entity_states
from grants.history import Moment, at_moment


@dataclass(frozen=True, slots=True)
class CallerThen(Caller):
    """The caller of questions about another time. generation: the active one in that state.

    visible, known: the addresses of the questions that the caller sees, and the containers that it knows, in
    the present.
    """

    visible: frozenset[Address] = frozenset()
    known: frozenset[Address] = frozenset()

    def visible_states(self, addresses: set[Address]) -> dict[Address, str]:
        return dict(entity_states(addresses & self.visible))

    def known_containers(self, addresses: set[Address]) -> set[Address]:
        return addresses & self.known


@contextmanager
def caller_at(caller: Caller, moment: Moment, targets: set[Address]) -> Iterator[Caller]:
    """Answer questions for the state and the time of the moment. Yield their caller. Compute all answers
    inside.

    targets: the addresses of the questions. Raise HistoryNotReady.
    """
    is_limited = not caller.can_ask_about_all and bool(targets)
    visible = frozenset(caller.visible_states(targets)) if is_limited else frozenset()
    known = frozenset(caller.known_containers(targets)) if is_limited else frozenset()
    with at_moment(moment):
        generation = caller.generation if moment.revision is None else active_generation().name
        yield CallerThen(generation, caller.can_ask_about_all, caller.name, caller.user, visible, known)


def with_revision(answer: dict, revision: int | None) -> dict:
    """Return the answer with the revision that it is about; unchanged for None, the present."""
    return (
        answer if revision is None else answer | {"context": {**answer.get("context", {}), "as_of": revision}}
    )
