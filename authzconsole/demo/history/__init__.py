"""Two years of invented changes that lead to the demo tenant, and the loader that writes them with past
times.

The final state is `tenant.jsonl`; nothing here may change it. Only `bootstrap` uses the loader, on an empty
database.
"""
