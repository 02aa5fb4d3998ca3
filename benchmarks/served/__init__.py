"""The console under its production server, with one address more: the reference that it is measured against."""
