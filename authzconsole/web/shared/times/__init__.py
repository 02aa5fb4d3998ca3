"""The time zone of the reader, and validity periods in forms and on pages."""
