"""Import and export tenant documents.

Each module handles one step or one type of line. Files of changes are read in `grants.plans.sources`.
"""
