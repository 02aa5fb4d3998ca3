"""Copy the database to Parquet at one revision, for Spark to read.

Results of runs are in `analytics.results`.
"""
