"""The items of large reviews. A Spark run computes them, and they are copied from its report into the table
of items.

The statements are those of `grants.reviews.preparation_sql`, which the database executes for smaller reviews.
"""
