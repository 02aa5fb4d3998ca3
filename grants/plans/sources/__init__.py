"""Where plans come from: one module for each source, such as a file, a bulk change or ghost grants.

Storing and applying the plan is not here; see `grants.plans.create` and `grants.plans.apply`.
"""
