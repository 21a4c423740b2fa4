"""Campaign that kills processes of a real grid at random and compares its results with those of an undisturbed run."""
