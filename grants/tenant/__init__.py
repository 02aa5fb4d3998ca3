"""Import and export tenant documents.

Each module handles one step or one line type of the document; other files are read in `grants.plans.sources`.
"""
