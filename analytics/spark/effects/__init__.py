"""The effect of a plan with the engine: the rules, the tenant and the figures.

The engine evaluates one tenant. Here this tenant contains the data before and after the changes at once: the
name of a privilege in its grants says in which states the grant counts, such as `READ ba` (before and after)
or `READ a` (only after). A group with other members after the changes is two groups, each with the grants of
its states. So facts about marked privileges evaluate a requirement in each state, and a rule compares the
requirement in the state before with the one in the state after.

    rules     compiles the requirements of a generation into rules over these facts
    tenant    builds the tables of the marked tenant from a snapshot and the changes
    tallies   counts the changed answers by user, operation and entity

`analytics.plan_effects` reads the changes of a plan and writes the report.
"""
