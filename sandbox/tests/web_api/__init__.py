"""The Web API's methods, called through the real client."""
