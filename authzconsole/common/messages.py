"""Messages that pages and REST share."""

NO_WRITES = "Your account may look at this, but not change it. Changes are made by administrators of the console."
