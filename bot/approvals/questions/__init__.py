"""Questions to people: asking one, what its rows say, its reminder and its deadline."""
