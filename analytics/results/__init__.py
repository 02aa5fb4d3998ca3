"""Read, export and compare the tables that finished runs wrote.

Nothing here starts a run or needs Spark.
"""
