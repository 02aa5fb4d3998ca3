"""The effects of plans and single changes that are too large to be computed while a page waits. A Spark run
computes each of them and stores its report.

The Spark computation is in `analytics.spark.effects`; runs are executed by `analytics.runs`.
"""
