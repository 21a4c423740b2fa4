"""One figure a module: `table(results)` computes what is drawn, `draw(table)` draws it; tests look at the table.

Every chart says its fidelity level, what each axis counts and in which unit, how many trials it rests on, and the interval of
every estimate. Colours can be told apart by colour-blind readers, and a chart of the same table is the same file, byte for byte.
"""
