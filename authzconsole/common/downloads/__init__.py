"""Files that pages and REST send: lists as CSV and JSON Lines, and ZIP files."""
