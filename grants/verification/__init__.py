"""Verify the journal: replay it, compare the result with the tables, and compare its lines with anchors
outside the database.
"""

from grants.verification.anchor import AnchorError, anchor_journal, anchor_place, anchored_revision
from grants.verification.facts import (
    APP_TITLE,
    CODES_TITLE,
    HELD,
    PASSKEY_PREFIX,
    SEPARATOR,
    Fact,
    fact_key,
    facts_of_line,
    period_of_value,
)
from grants.verification.replay import first_fault

__all__ = [
    "APP_TITLE",
    "CODES_TITLE",
    "HELD",
    "PASSKEY_PREFIX",
    "SEPARATOR",
    "AnchorError",
    "Fact",
    "anchor_journal",
    "anchor_place",
    "anchored_revision",
    "fact_key",
    "facts_of_line",
    "first_fault",
    "period_of_value",
]
