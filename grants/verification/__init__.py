"""Verify the journal: replay it, compare the result with the tables, and compare its lines with anchors
outside the database.
"""

from grants.verification.anchor import AnchorError, anchor_journal, anchor_place, anchored_revision
from grants.verification.facts import (
    APP_TITLE,
    CODES_TITLE,
    EVENTS_SEAL,
    HELD,
    PASSKEY_PREFIX,
    PLAN_CREATE,
    SEPARATOR,
    Fact,
    fact_key,
    facts_of_line,
    first_plan_in_journal,
    period_of_value,
    plan_digest,
    previous_generation,
)
from grants.verification.replay import first_fault, first_history_fault
