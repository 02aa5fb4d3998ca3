"""The effects of plans and single changes that are too large to be computed while a page waits. A run computes
each of them in the worker, with the evaluator of `grants.effects`, and stores its report.
"""
