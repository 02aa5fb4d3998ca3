"""The effect of a plan above the limits: its computation with Spark, and its use by pages and REST."""
