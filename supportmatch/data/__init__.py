"""Data: the containers that everything else reads, and the real and synthetic problems."""
