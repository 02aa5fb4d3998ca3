"""Send e-mail to one recipient after the other."""
