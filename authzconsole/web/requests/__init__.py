"""The area Requests: ask for access, follow requests, decide about them, and name the approvers of
namespaces.
"""
