"""What buttons, menus and dialogs are called, and what stands in them. Pure."""
