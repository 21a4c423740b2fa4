"""Sessions that are over: their timeline, the requests that were sent, what another policy would have done, import and export."""
