"""The policies of published agents and libraries, one module a family."""
