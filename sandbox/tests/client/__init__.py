"""What people do: commands, shortcuts, inputs, App Home and membership."""
