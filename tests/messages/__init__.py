"""Cards, dialogs, forms and sentences."""
