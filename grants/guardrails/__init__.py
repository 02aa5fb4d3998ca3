"""Guardrails: rules over the result of all grants.

`rules` parses them, `evaluation` finds their violations, `check` compares the violations before and after a change.
The types of changes are in `grants.change_set`, and are written in `grants.changes.guardrails`.
"""
