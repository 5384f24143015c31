"""Who works on requests in this process, and on which."""
