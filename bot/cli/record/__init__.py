"""The commands about the record: is it whole, what it says, how people decided, what is kept."""
