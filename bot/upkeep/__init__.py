"""What goes on beside the requests: the operator's door, and the daily purge."""
