"""The REST resources of access requests: create, list and decide them, and name the approvers of namespaces."""
