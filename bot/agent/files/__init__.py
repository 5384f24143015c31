"""Files that people attach, for the model: what is in them, and every word it is told of them."""
