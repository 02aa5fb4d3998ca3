"""The engine: evaluates a rule set for every active user and every live entity, without building all pairs of
them.

`evaluate_rules(tables, rule_set, output)` is the entry point. The modules, in the order of the steps:

    rules       compiles the requirements of the catalogue into a rule set over numbered facts (`compiled`)
    encode      describes the tenant as rows (`rows`) in partitions
    precompute  finds the users who hold a privilege on all live entities in a container
    directory   contains the users, groups, memberships and namespaces that every Python worker has
    units       assigns targets to units, and to positions in words of bits
    bits        evaluates requirements on bits, for many users at once
    held        counts what users gain by rules that require one held fact; few targets then need bits
    sums        counts the changed answers, and adds up the counts in the order of the key of the table
    pairs       finds the pairs of user and entity with a changed answer, packs them by part, and merges the
                parts

docs/concepts/engine.md explains the idea, the data layout and the cost with an example. The modules in
`analytics.spark.analyses` call the engine and describe the meaning of the tables.
"""

from analytics.spark.engine.compiled import LiveNamespaces
from analytics.spark.engine.entry import ChangeCounts, HolderCounts, PairTable, evaluate_rules

__all__ = [
    "ChangeCounts",
    "HolderCounts",
    "LiveNamespaces",
    "PairTable",
    "evaluate_rules",
]
