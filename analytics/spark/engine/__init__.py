"""The engine: evaluates a rule set for every active user and every live entity, without building all pairs of them.

`evaluate_rules(tables, rule_set, output)` is the only entry point. The steps, in order:

    rules       compile the requirements of the catalogue into a rule set over numbered facts
    encode      describe the tenant as typed rows (`rows`) in partitions; small_tenant does it without Spark's joins
    precompute  facts about all live entities in a container
    members     the directory of users, groups, memberships and namespaces that every Python worker has
    layout      targets as positions in words of bits, in units of work
    facts       who holds a fact at which position
    evaluate    requirements on bits, for many users at once
    count       how many answers change, by user, group or everyone; `pairs`: which answers change
    pack        combine partial counts, and send them to the part of the result that needs them
    merge       add them up, as rows of a table in the order of its key; `pairs` does the same for pairs

docs/engine.md explains the idea, the data layout and the cost with an example. The requests of the analyses to the engine, and
the meaning of their tables, are in `analytics.spark.analyses`.
"""

from analytics.spark.engine.compiled import LiveNamespaces
from analytics.spark.engine.entry import (
    ChangeCounts,
    ChangedPairs,
    HolderCounts,
    PairTable,
    evaluate_rules,
    released_broadcasts,
)

__all__ = ["ChangeCounts", "ChangedPairs", "HolderCounts", "LiveNamespaces", "PairTable", "evaluate_rules", "released_broadcasts"]
