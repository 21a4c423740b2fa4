"""Functions that find, list, search, archive and clean up logged sessions."""
