"""Every experiment of the paper: settings x methods x seeds, as rows on disk, tables and figures."""
