"""Plans: stored changes that are reviewed, applied as a whole, discarded or undone.

The sources of plans are in `grants.plans.sources`. Changes without a plan are in `grants.changes`.
"""
