"""One module for each analysis: the rules that it evaluates and the contents of its tables.

Rules are evaluated in `engine`.
"""
