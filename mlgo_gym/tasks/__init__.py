"""What a task is: what is different about one kind of decision, and how its observations, costs and pages are made."""
