"""Our presets beside the originals: the same conversations, and what each keeps, masks and tells its summarizer."""
