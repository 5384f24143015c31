"""What the Home tab shows to one person, made from the rows. It looks people up."""
