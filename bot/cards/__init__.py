"""Cards, dialogs and sentences for Slack, drawn from data made of database rows. Pure."""
