"""Assign data stewards to namespaces and remove them, with the journal lines. `grants.authority` says what a
steward may do."""

from grants.stewards.services import add_steward, end_stewardships, remove_steward
