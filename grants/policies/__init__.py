"""The rules of the four generations as data, and the pure Python that decides and explains by them.

Nothing here reads the database; facts come from `grants.evaluation`.
"""
