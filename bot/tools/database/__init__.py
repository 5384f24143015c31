"""Tools that read and change the databases that the operator names."""
