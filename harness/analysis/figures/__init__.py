"""Figures, one per module: `table(results)` computes the data, and `draw(table)` draws them; tests check the table.

Every chart shows its fidelity level, the unit of each axis, the number of trials and the interval of every estimate. The colours
are distinguishable for colour-blind readers. Equal tables give identical files.
"""
