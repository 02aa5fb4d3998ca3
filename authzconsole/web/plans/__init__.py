"""Pages that create, show, apply and undo plans.

The plans themselves are in `grants.plans`.
"""
