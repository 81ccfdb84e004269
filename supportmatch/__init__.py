"""supportmatch: classify subgroups that your labels never showed."""
