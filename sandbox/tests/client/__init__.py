"""What people do: their acts, commands, shortcuts and inputs."""
