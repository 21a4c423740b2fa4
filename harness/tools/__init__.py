"""The tools that an agent works with, each over one sandbox."""

from harness.tools.session_tools import tools_under as tools_under
from harness.tools.standard import standard_tools as standard_tools
