"""The pages of connections to platforms."""
