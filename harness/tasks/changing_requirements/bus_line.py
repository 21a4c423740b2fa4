"""The bus line: its stops, and when the user speaks up."""

STOPS = (
    *("abbey", "bakery", "bridge", "castle", "cemetery", "cinema", "college", "depot", "ferry", "forge", "garden", "harbour"),
    *("hospital", "lighthouse", "market", "mill", "museum", "orchard", "quarry", "school", "station", "stadium", "theatre"),
    "vineyard",
)
"""In the order of the line."""
SHEETS_BEFORE_FIRST_CHANGE, SHEETS_BEFORE_SECOND_CHANGE = 9, 17
"""Sheets that are written when the user changes the rules for the first and for the second time."""
BAYS = ("abbey", "castle", "college", "harbour", "hospital", "mill")
"""Stops with several bays, whose surveys are read long before the papers need them."""
SURVEY_CHARACTERS = (3_500, 9_400, 6_000, 9_400)
"""Sizes of the surveys in turn: as long as may be read whole, or shorter."""
