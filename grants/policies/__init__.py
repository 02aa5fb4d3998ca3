"""The rules of the generations as data, and pure Python code that decides and explains with them.

Nothing here reads the database; facts come from `grants.evaluation`.
"""
