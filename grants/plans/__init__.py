"""Plans: stored changes that are reviewed, applied as a whole, discarded or undone.

What a plan is made from is in `grants.plans.sources`; single change sets are in `grants.changes`.
"""
