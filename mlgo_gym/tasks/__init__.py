"""Tasks: one kind of decision each, with its observations, actions, costs and the tables of its manual page."""
