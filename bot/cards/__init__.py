"""From rows to words and blocks: cards, dialogs, sentences. Pure."""
