"""How a session behaved, told from its log: repeated and redundant calls, loops, thrash, and what became of the task's facts."""
