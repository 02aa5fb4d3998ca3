"""Messages that pages and REST share."""

READ_ONLY_ACCOUNT = "Your account can view this, but not change it. Only administrators of the console can make changes."
