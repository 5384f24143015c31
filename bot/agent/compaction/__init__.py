"""A long thread, said in fewer words: what the model is asked for it, and is told then."""
