"""List who can access an entity, what a principal can do, and the paths: the grants by which each operation
is permitted.

This package collects the paths, loads the grants that they consist of, and lists people and entities. It only
reads, and evaluates the rules in `grants.policies`.
"""
