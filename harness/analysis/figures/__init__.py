"""Charts of experiment results, one per module, with a function `table` for the data and a function `draw` for the chart.

Every chart shows its fidelity level (how much of a run is real), the unit of each axis, the number of trials and the interval of
every estimate. The colours are distinguishable for colour-blind readers. Equal tables give identical files.
"""
