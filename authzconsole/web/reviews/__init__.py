"""The pages of access reviews: the list, the items of a review with their evidence and answers, and its start
and end.
"""
