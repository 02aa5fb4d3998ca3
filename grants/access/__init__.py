"""List who can access an entity, what a principal can do, and the paths: the grants by which each operation
is permitted.

This package contains the walker that collects paths, the facts that it reads, and the lists of people and
entities. It only reads, and evaluates the rules in `grants.policies`.
"""
