"""Report on an experiment as one HTML page, written to a file or served on this machine.

The page joins the analysis with transcripts of sessions, so the package imports from both `analysis` and `inspection`, and it
uses the scripts of the widgets. All statistics are computed in Python and embedded; the scripts of the page only show them.
"""
