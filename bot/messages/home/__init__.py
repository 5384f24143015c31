"""The Home tab of the app: what it shows, as plain data, and how that is drawn. Pure."""
