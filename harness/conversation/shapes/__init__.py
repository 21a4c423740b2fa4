"""Forms of message lists of several providers and libraries, read into messages of this project and written back unchanged."""
