"""Rules that accept classes of findings: which findings a rule is about."""

import re
from collections.abc import Iterable

from django.utils import timezone

from authzconsole.models import AcceptanceRule, Finding


def matches(pattern: str, subject: str) -> bool:
    """Return whether a subject has the form of a pattern, in which `*` is any number of characters."""
    first, *others = map(re.escape, re.split(r"\*+", pattern))
    # the earliest place of each middle part is enough; without atomic groups, many parts would take exponential time
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    expression = f"{first}{middle}.*{others[-1]}" if others else first
    return re.fullmatch(expression, subject, re.DOTALL) is not None


def active_rules() -> list[AcceptanceRule]:
    """Return the rules that have not ended. Runs one query."""
    return list(AcceptanceRule.objects.filter(until__gt=timezone.now()).order_by("pk"))


def rule_for(finding: Finding, rules: Iterable[AcceptanceRule]) -> AcceptanceRule | None:
    """Return the rule that accepts the finding; None if there is none."""
    return next(
        (rule for rule in rules if rule.kind == finding.kind and matches(rule.pattern, finding.subject)), None
    )
