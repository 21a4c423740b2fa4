"""Docker: the launcher, the engine it talks to, the images it needs. The library loads when it is used, being slow."""
