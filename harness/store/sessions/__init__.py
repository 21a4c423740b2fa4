"""Operations on logged sessions: find, list, search, archive and clean up."""
