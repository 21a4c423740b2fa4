"""Report on an experiment as one HTML page, written to a file or served on this machine.

The page joins the analysis with transcripts of sessions, so the package imports from both `analysis` and `inspection`. Its
scripts and styles are modules in `js/`, which import some of the widgets; `make js` builds the two files in `bundles/`, which the
page embeds. All statistics, verdicts and shades are computed in Python; the scripts only show them.
"""
