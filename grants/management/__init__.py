"""Management commands on grants, tenants and the journal, and the base class of all commands."""
