"""REST resources of access reviews: campaigns, their items and answers, and the use of entities."""
