"""The dialog in which somebody has another decide for them, and how that is listed. Pure."""
