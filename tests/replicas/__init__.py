"""What one of several processes does to be one."""
