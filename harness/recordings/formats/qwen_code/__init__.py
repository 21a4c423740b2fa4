"""Format of sessions recorded by Qwen Code."""
