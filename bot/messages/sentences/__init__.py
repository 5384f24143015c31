"""Every sentence that people are told about a decision, in one place. Pure."""
