"""What people have said of a call that waits, held against its gate."""
