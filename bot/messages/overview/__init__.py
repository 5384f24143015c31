"""What `/approvals` shows a person: the menu, lists, and the whole life of a request. Pure."""
