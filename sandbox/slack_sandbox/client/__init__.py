"""People at their clients: what they see, press, type and choose."""
