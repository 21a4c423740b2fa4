"""Tools of an agent, such as running a command or reading a file; each tool works in one sandbox."""

from harness.tools.session_tools import make_session_tools as make_session_tools
from harness.tools.standard import make_standard_tools as make_standard_tools
