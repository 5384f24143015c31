"""What the commands that only look are made of, and how they write what they found."""
