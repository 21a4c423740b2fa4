"""What a person does with logged sessions: find, list, search, archive and clean up."""
