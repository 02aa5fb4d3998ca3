"""Pages that compare generations and activate one.

The rules themselves are in `grants.policies`.
"""
