"""The engine: evaluates a rule set for every active user and every live entity, without building all pairs of
them.

`evaluate_rules(tables, rule_set, output)` is the entry point; `evaluate_partitions` is another one, for rows
that do not form a table. The modules, in the order of the steps:

    rules       compiles the requirements of the catalogue into a rule set over numbered facts (`compiled`)
    encode      describes the tenant as typed rows (`rows`) in partitions; small_tenant does this without
    Spark's joins precompute  finds the users who hold a privilege on all live entities in a container members
    contains the directory of users, groups, memberships and namespaces that every Python worker has layout
    assigns targets to units, and to positions in words of bits facts       finds which principals hold a fact
    at which position evaluate    evaluates requirements on bits, for many users at once count       counts
    the changed answers, by user, by group or for everyone pack        adds up the counts of a partition, and
    packs them by part of the result merge       adds up the counts of a part, as rows of a table in the order
    of its key pairs       finds the pairs of user and entity with a changed answer, packs them by part, and
    merges the parts

docs/engine.md explains the idea, the data layout and the cost with an example. The modules in
`analytics.spark.analyses` call the engine and describe the meaning of the tables.
"""

from analytics.spark.engine.compiled import LiveNamespaces
from analytics.spark.engine.entry import (
    ChangeCounts,
    HolderCounts,
    PairTable,
    evaluate_partitions,
    evaluate_rules,
    release_broadcasts,
)

__all__ = [
    "ChangeCounts",
    "HolderCounts",
    "LiveNamespaces",
    "PairTable",
    "evaluate_partitions",
    "evaluate_rules",
    "release_broadcasts",
]
