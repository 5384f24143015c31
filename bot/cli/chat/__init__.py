"""`countersign chat`: what is typed and drawn at the prompt."""
