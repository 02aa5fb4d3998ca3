"""Many answers: every operation of an entity for one subject at a glance, and one question in every generation."""

from collections.abc import Sequence
from dataclasses import dataclass

from authzconsole.web.policies.page import row_url
from entities.vocabulary import KINDS
from grants.evaluation.engine import check_many
from grants.evaluation.facts import gather_facts
from grants.policies.decide import is_permitted
from grants.policies.explain import early_denial_reason
from grants.policies.grammar import HasOnAllLive, leaves
from grants.policies.policy import Source
from grants.policies.question import Question

MANY = {True: "Allowed: what it asks for is held on every live entity there.",
        False: "Denied: what it asks for is not held on every live entity there."}


@dataclass(frozen=True, slots=True)
class Glance:
    """One answer in a line. url: the same question by itself, with its tree and what is missing. rule_url: as of an Answer."""

    name: str
    allowed: bool
    sentence: str
    source: Source | None
    url: str
    rule_url: str = ""
    is_current: bool = False


def glances(asked: Sequence[tuple[str, Question, str]], *, current: str = "") -> list[Glance]:
    """The answers, in order. asked: a name, the question, and its URL. At most two queries.

    What a rule over all live entities lacks is not told here: there may be as many as the tenant has entities, and the reader
    may not see them.
    """
    explained = iter(check_many([question for _, question, _ in asked if not _ranges(question)]))
    weighed = iter(gather_facts([question for _, question, _ in asked if _ranges(question)]))
    shown = []
    for name, question, url in asked:
        if _ranges(question):
            facts = next(weighed)
            allowed = is_permitted(question, facts)
            sentence = MANY[allowed] if facts.subject_is_known else f"Denied: {early_denial_reason(question, facts)}."
        else:
            answered = next(explained)
            allowed, sentence = answered.allowed, answered.sentence
        source = question.policy.source if question.policy else None
        shown.append(Glance(name, allowed, sentence, source, url, row_url(question), name == current))
    return shown


def _ranges(question: Question) -> bool:
    """Whether the rule looks at all live entities in the target."""
    policy = question.policy
    return policy is not None and policy.requirement is not None and any(
        isinstance(leaf, HasOnAllLive) for leaf in leaves(policy.requirement))


def is_operation(kind: str, operation: str) -> bool:
    """Whether the generations have something to say about it: a bare privilege is the same in each."""
    return operation in KINDS[kind].operations
