"""A card as Block Kit, from what its readers may see of a plan and its calls. Pure."""
