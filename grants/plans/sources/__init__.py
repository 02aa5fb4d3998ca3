"""Create plans from their sources: one module for each source, such as a file, a bulk change or ghost grants.

Plans are stored in `grants.plans.create` and applied in `grants.plans.apply`.
"""
